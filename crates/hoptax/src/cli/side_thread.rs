//! A thread that works beside the generator.

use hoptax_host::cpus;
use std::io;
use std::sync::mpsc::{self, Receiver, Sender};
use std::thread::{self, JoinHandle};

/// A thread with a channel to it. When this value is dropped, the channel closes, and the drop waits until
/// the thread has ended.
#[derive(Debug)]
pub(super) struct SideThread<T> {
    sender: Option<Sender<T>>,
    thread: Option<JoinHandle<()>>,
}

impl<T: Send + 'static> SideThread<T> {
    /// Starts `work` on a thread that avoids the CPUs of the `workers`. `work` must return when the channel
    /// closes. Fails if the thread cannot be started.
    pub(super) fn start(
        name: &str,
        workers: &[u32],
        work: impl FnOnce(&Receiver<T>) + Send + 'static,
    ) -> io::Result<Self> {
        let (sender, received) = mpsc::channel();
        let workers = workers.to_vec();
        let thread = thread::Builder::new().name(name.to_owned()).spawn(move || {
            cpus::keep_off(&workers);
            work(&received);
        })?;
        Ok(Self { sender: Some(sender), thread: Some(thread) })
    }

    /// The returned function sends its argument to the thread.
    pub(super) fn observer(&self) -> impl FnMut(T) + use<T> {
        let sender = self.sender.clone();
        move |value| {
            // If the thread has ended, sending fails and the measurement continues.
            let _ = sender.as_ref().map(|sender| sender.send(value));
        }
    }
}

impl<T> Drop for SideThread<T> {
    fn drop(&mut self) {
        self.sender = None;
        if let Some(thread) = self.thread.take() {
            // If the thread panicked, the panic has already been printed.
            let _ = thread.join();
        }
    }
}
