//! What every request is answered from: the history, the run under way, and who may ask.

use super::guard::Guard;
use super::latest::Cache;
use super::options::{Options, ServeError};
use super::problem::Problem;
use crate::Store;
use crate::live::{Board, Stage, State};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// How long what is known of the directories is good enough.
const FRESH: Duration = Duration::from_secs(1);

/// What requests share.
#[derive(Debug)]
pub(super) struct App {
    root: PathBuf,
    live: Option<Board>,
    pub(super) guard: Guard,
    history: Mutex<History>,
    /// Says that there may be something to analyse.
    work: SyncSender<()>,
    to_do: Mutex<Option<Receiver<()>>>,
    pub(super) figures: Cache,
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
            guard: Guard::new(address, options.token.as_deref()),
            history: Mutex::new(History { store: Store::open(&options.root)?, refreshed: None }),
            work,
            to_do: Mutex::new(Some(to_do)),
            figures: Cache::default(),
        })
    }

    /// The directory whose runs are shown.
    pub(super) fn root(&self) -> &Path {
        &self.root
    }

    /// What the run under way in this process shows.
    pub(super) fn live(&self) -> Option<State> {
        self.live.as_ref().map(Board::read)
    }

    /// Asks the history, which is brought up to date first, on a thread that may wait.
    pub(super) async fn history<T: Send + 'static>(
        self: &Arc<Self>,
        ask: impl FnOnce(&mut Store) -> Result<T, Problem> + Send + 'static,
    ) -> Result<T, Problem> {
        let app = Arc::clone(self);
        aside(move || app.history_now(ask)).await
    }

    /// The same on this thread.
    pub(super) fn history_now<T>(
        &self,
        ask: impl FnOnce(&mut Store) -> Result<T, Problem>,
    ) -> Result<T, Problem> {
        let mut history = self.locked();
        if history.refreshed.is_none_or(|at| at.elapsed() >= FRESH) {
            history.store.refresh()?;
            history.refreshed = Some(Instant::now());
            // One who was told already is told enough.
            let _ = self.work.try_send(());
        }
        ask(&mut history.store)
    }

    /// After a change: the next one who asks sees it.
    pub(super) fn forget(&self) {
        self.locked().refreshed = None;
    }

    fn locked(&self) -> MutexGuard<'_, History> {
        // Whoever panicked left an index that the next look brings up to date.
        self.history.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Analyses what is pending, one run after the other, on a thread of its own that ends with this value. While a run is
    /// measured in this process it waits.
    pub(super) fn analyse_in_the_background(self: &Arc<Self>) {
        let Some(to_do) = self.to_do.lock().unwrap_or_else(PoisonError::into_inner).take() else { return };
        let (root, app) = (self.root.clone(), Arc::downgrade(self));
        let body = move || {
            // An index of its own, so that nobody who asks waits for an analysis.
            let Ok(mut own) = Store::open(&root) else { return };
            while to_do.recv().is_ok() {
                let next = |analyse: &mut dyn FnMut(&App) -> bool| {
                    app.upgrade().is_some_and(|app| !app.is_measuring() && analyse(&app))
                };
                while next(&mut |_| own.analyse_next().unwrap_or(false)) {}
                // Where the directory cannot be written each index is in memory: then pages' own needs what was found.
                while next(&mut |app| app.locked().store.analyse_next().unwrap_or(false)) {}
            }
        };
        // Without it everything but trends is there.
        let _ = std::thread::Builder::new().name("serve-analyse".into()).spawn(body);
    }

    fn is_measuring(&self) -> bool {
        self.live().is_some_and(|state| state.stage != Stage::Ended)
    }
}

/// Does what takes long, or reads the disk, beside the thread that answers.
pub(super) async fn aside<T: Send + 'static>(
    work: impl FnOnce() -> Result<T, Problem> + Send + 'static,
) -> Result<T, Problem> {
    match tokio::task::spawn_blocking(work).await {
        Ok(done) => done,
        Err(_) => Err(Problem::fault("this could not be worked out: a fault of hoptax")),
    }
}
