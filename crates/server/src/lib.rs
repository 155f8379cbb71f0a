//! The server: OpenAI's and Anthropic's APIs over HTTP, and the chat page.
//!
//! Async, JSON and the names of the APIs live here and nowhere else. A request becomes token ids (`generate/prepare.rs`),
//! goes to a loaded model's engine (`engine.rs`), and what comes back is decoded, read for thinking and calls of tools
//! (`parse`), and written in the shape that the client's API has (`openai`, `anthropic`). Backends and files are the
//! caller's: it passes a [`models::Loader`].

#![forbid(unsafe_code)]

mod anthropic;
pub mod auth;
mod body;
pub mod config;
pub mod engine;
pub mod error;
mod fields;
mod generate;
mod guard;
mod listen;
pub mod log;
mod metrics;
pub mod models;
mod openai;
mod openapi;
mod origin;
mod page;
pub mod parse;
mod resumable;
mod router;
mod sse;
mod state;
mod work;

use std::future::Future;
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;

use config::ServerConfig;
use log::Log;
use models::Registry;
use state::App;
use tokio::net::TcpListener;

/// Threads that read and write, at most: at 0.2 ms a token, measured, each carries 5,000 a second.
const WORKERS_MAX: usize = 4;

/// A server whose address is taken and that serves when it is [run](Server::run).
pub struct Server {
    app: App,
    listener: TcpListener,
}

impl Server {
    /// Takes the address.
    ///
    /// # Errors
    /// The address is taken, or not this machine's.
    pub async fn bind(config: ServerConfig, registry: Arc<Registry>, log: Log) -> io::Result<Server> {
        let listener = listen::bind(config.address).await?;
        Ok(Server { app: App::new(config, registry, log), listener })
    }

    /// The address, with the port that the system chose if none was asked for.
    ///
    /// # Errors
    /// The system does not tell.
    pub fn address(&self) -> io::Result<SocketAddr> {
        self.listener.local_addr()
    }

    /// Serves until `stop` ends, then waits for what runs. The default model is loaded meanwhile.
    pub async fn run(self, stop: impl Future<Output = ()>) {
        if let Some(id) = self.app.registry.default_id() {
            self.app.registry.start_load(&id);
        }
        listen::serve(self.app, self.listener, stop).await;
    }
}

/// Serves until the process is asked to end, by Ctrl-C or SIGTERM, and then until what runs has ended; a second signal
/// does not wait. `bound` is told the address.
///
/// # Errors
/// The address is taken or not this machine's, or the system gives no threads or signals.
pub fn run(config: ServerConfig, registry: Arc<Registry>, log: Log, bound: impl FnOnce(SocketAddr)) -> io::Result<()> {
    let mut runtime = tokio::runtime::Builder::new_multi_thread();
    let runtime =
        runtime.enable_all().worker_threads(workers(config.shares_cores)).thread_name("zinc-server").build()?;
    runtime.block_on(async {
        let server = Server::bind(config, registry, log).await?;
        let (first, second) = (Signals::listen()?, Signals::listen()?);
        bound(server.address()?);
        tokio::select! {
            () = server.run(first.wait(1)) => {}
            () = second.wait(2) => {}
        }
        Ok(())
    })
}

/// Threads that read and write: one where the engine needs every core, since each token wakes one, and any further idle one
/// costs another wake-up of the system's, in the middle of the engine's work. On two cores a streamed token woke 1.25 times
/// with one thread, 2.4 with two and 2.5 with four, on sixteen 3.0 with four (`cargo xtask cost`).
fn workers(shares_cores: bool) -> usize {
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    if shares_cores { 1 } else { (cores / 2).clamp(1, WORKERS_MAX) }
}

/// The signals that ask a process to end.
#[cfg(unix)]
struct Signals(tokio::signal::unix::Signal, tokio::signal::unix::Signal);

#[cfg(unix)]
impl Signals {
    fn listen() -> io::Result<Signals> {
        use tokio::signal::unix::{SignalKind, signal};
        Ok(Signals(signal(SignalKind::interrupt())?, signal(SignalKind::terminate())?))
    }

    /// Waits for so many of them.
    async fn wait(mut self, n: usize) {
        for _ in 0..n {
            tokio::select! {
                _ = self.0.recv() => {}
                _ = self.1.recv() => {}
            }
        }
    }
}
