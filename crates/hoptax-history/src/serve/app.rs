//! State that all requests share: the history, the run in progress, and the guard.

use super::guard::Guard;
use super::latest::Cache;
use super::options::{Options, ServeError};
use super::places::Drawing;
use super::problem::Problem;
use crate::Store;
use crate::live::{Board, Stage, State};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// Minimum time between two scans of the directories.
const FRESH: Duration = Duration::from_secs(1);

#[derive(Debug)]
pub(super) struct App {
    root: PathBuf,
    live: Option<Board>,
    pub(super) guard: Guard,
    history: Mutex<History>,
    /// Wakes the thread that analyses runs.
    work: SyncSender<()>,
    to_do: Mutex<Option<Receiver<()>>>,
    pub(super) figures: Cache,
    pub(super) drawing: Drawing,
    /// True if this process only draws a response for a server, and that server measures a run.
    measures_elsewhere: bool,
}

#[derive(Debug)]
struct History {
    store: Store,
    refreshed: Option<Instant>,
}

impl App {
    pub(super) fn open(options: &Options, address: SocketAddr) -> Result<Self, ServeError> {
        let (work, to_do) = sync_channel(1);
        Ok(Self {
            root: options.root.clone(),
            live: options.live.clone(),
            guard: Guard::new(address, &options.access),
            history: Mutex::new(History { store: Store::open(&options.root)?, refreshed: None }),
            work,
            to_do: Mutex::new(Some(to_do)),
            figures: Cache::default(),
            drawing: Drawing::new(&options.exe),
            measures_elsewhere: false,
        })
    }

    /// Turns this state into the state of a process that draws for a server. `under_way` is true if the
    /// server's process measures a run.
    pub(super) fn drawing_for(self, under_way: bool) -> Self {
        Self { measures_elsewhere: under_way, ..self }
    }

    /// Whether a run is in progress in the server's process.
    pub(super) fn is_under_way(&self) -> bool {
        self.measures_elsewhere || self.is_measuring()
    }

    pub(super) fn root(&self) -> &Path {
        &self.root
    }

    /// State of the run that this process is measuring.
    pub(super) fn live(&self) -> Option<State> {
        self.live.as_ref().map(Board::read)
    }

    /// Updates the history if it is out of date, and then queries the history. Both steps run on a thread
    /// that may block.
    pub(super) async fn history<T: Send + 'static>(
        self: &Arc<Self>,
        ask: impl FnOnce(&mut Store) -> Result<T, Problem> + Send + 'static,
    ) -> Result<T, Problem> {
        let app = Arc::clone(self);
        aside(move || app.history_now(ask)).await
    }

    /// Works like [`Self::history`], but on the calling thread.
    pub(super) fn history_now<T>(
        &self,
        ask: impl FnOnce(&mut Store) -> Result<T, Problem>,
    ) -> Result<T, Problem> {
        let mut history = self.locked();
        if history.refreshed.is_none_or(|at| at.elapsed() >= FRESH) {
            history.store.refresh()?;
            history.refreshed = Some(Instant::now());
            // If the channel is full, a wake-up of the thread is already pending.
            let _ = self.work.try_send(());
        }
        ask(&mut history.store)
    }

    /// Makes the next request scan the directories again. Called after each change.
    pub(super) fn forget(&self) {
        self.locked().refreshed = None;
    }

    fn locked(&self) -> MutexGuard<'_, History> {
        // After a panic, the index may be out of date. The next refresh updates it.
        self.history.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Analyses pending runs one by one, on a separate thread. The thread waits while this process measures a
    /// run. The thread ends when this `App` is dropped.
    pub(super) fn analyse_in_the_background(self: &Arc<Self>) {
        let Some(to_do) = self.to_do.lock().unwrap_or_else(PoisonError::into_inner).take() else { return };
        let (root, app) = (self.root.clone(), Arc::downgrade(self));
        let body = move || {
            // The thread has its own index, so that requests need not wait for an analysis.
            let Ok(mut own) = Store::open(&root) else { return };
            while to_do.recv().is_ok() {
                let next = |analyse: &mut dyn FnMut(&App) -> bool| {
                    app.upgrade().is_some_and(|app| !app.is_measuring() && analyse(&app))
                };
                while next(&mut |_| own.analyse_next().unwrap_or(false)) {}
                // If the directory cannot be written, each index exists only in memory. The index for the
                // pages then cannot see the analyses in the thread's index, so analyse the runs for that
                // index too.
                while next(&mut |app| app.locked().store.analyse_next().unwrap_or(false)) {}
            }
        };
        // If this thread cannot be started, everything except trends still works.
        let _ = std::thread::Builder::new().name("serve-analyse".into()).spawn(body);
    }

    fn is_measuring(&self) -> bool {
        self.live().is_some_and(|state| state.stage != Stage::Ended)
    }
}

/// Runs `work` on another thread, because `work` is slow or reads the disk.
pub(super) async fn aside<T: Send + 'static>(
    work: impl FnOnce() -> Result<T, Problem> + Send + 'static,
) -> Result<T, Problem> {
    match tokio::task::spawn_blocking(work).await {
        Ok(done) => done,
        Err(_) => Err(Problem::fault("the request failed because of a bug in hoptax")),
    }
}
