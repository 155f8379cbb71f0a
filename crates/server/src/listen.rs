//! Connections: accepted up to a limit, read and written within limits of time, drained at the end.

use std::future::Future;
use std::io;
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::task::{Context, Poll};
use std::time::Duration;

use hyper::server::conn::http1;
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::server::graceful::GracefulShutdown;
use hyper_util::service::TowerToHyperService;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Semaphore;
use tokio::time::{Instant, Sleep};

use crate::router::router;
use crate::state::App;

/// Pause after an error of the listener, such as too many open files.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

/// Serves until `stop` ends, then lets what runs come to its end.
pub(crate) async fn serve(app: App, listener: TcpListener, stop: impl Future<Output = ()>) {
    let limits = app.config.limits;
    let router = router(&app);
    let graceful = GracefulShutdown::new();
    let room = Arc::new(Semaphore::new(limits.connections_max));
    let mut stop = std::pin::pin!(stop);
    let mut builder = http1::Builder::new();
    builder
        .timer(TokioTimer::new())
        .header_read_timeout(limits.head_time_max)
        .max_buf_size(limits.head_bytes_max)
        .max_headers(limits.headers_max)
        .pipeline_flush(true);
    loop {
        // Connections beyond the limit wait in the system's queue.
        let place = tokio::select! {
            place = Arc::clone(&room).acquire_owned() => place,
            () = &mut stop => break,
        };
        let accepted = tokio::select! {
            accepted = listener.accept() => accepted,
            () = &mut stop => break,
        };
        let (Ok((stream, _)), Ok(place)) = (accepted, place) else {
            tokio::time::sleep(ACCEPT_PAUSE).await;
            continue;
        };
        // Small pieces are what a stream is made of.
        let _ = stream.set_nodelay(true);
        let io = TokioIo::new(Patient::new(stream, limits.write_idle_max));
        let connection = builder.serve_connection(io, TowerToHyperService::new(router.clone()));
        let connection = graceful.watch(connection);
        let app = app.clone();
        tokio::spawn(async move {
            app.metrics.connections.fetch_add(1, Ordering::Relaxed);
            // A connection that fails concerns its client alone.
            let _ = connection.await;
            app.metrics.connections.fetch_sub(1, Ordering::Relaxed);
            drop(place);
        });
    }
    drop(listener);
    app.drain();
    app.log.event("draining", "no new requests are taken; waiting for those that run");
    tokio::select! {
        () = graceful.shutdown() => {}
        () = tokio::time::sleep(limits.drain_max) => {
            app.log.event("drained", "requests that still ran were ended");
        }
    }
}

/// Binds the address.
pub(crate) async fn bind(address: SocketAddr) -> io::Result<TcpListener> {
    TcpListener::bind(address).await
}

/// A stream whose writes fail if the other side reads nothing for too long.
struct Patient {
    stream: TcpStream,
    idle_max: Duration,
    deadline: Pin<Box<Sleep>>,
    is_waiting: bool,
}

impl Patient {
    fn new(stream: TcpStream, idle_max: Duration) -> Patient {
        Patient { stream, idle_max, deadline: Box::pin(tokio::time::sleep(idle_max)), is_waiting: false }
    }

    /// Watches the time of a write that cannot go on.
    fn watch<T>(&mut self, context: &mut Context<'_>, polled: Poll<io::Result<T>>) -> Poll<io::Result<T>> {
        if polled.is_ready() {
            self.is_waiting = false;
            return polled;
        }
        if !self.is_waiting {
            self.is_waiting = true;
            self.deadline.as_mut().reset(Instant::now() + self.idle_max);
        }
        match self.deadline.as_mut().poll(context) {
            Poll::Ready(()) => Poll::Ready(Err(io::ErrorKind::TimedOut.into())),
            Poll::Pending => Poll::Pending,
        }
    }
}

impl AsyncRead for Patient {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_read(context, buffer)
    }
}

impl AsyncWrite for Patient {
    fn poll_write(mut self: Pin<&mut Self>, context: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        let polled = Pin::new(&mut self.stream).poll_write(context, bytes);
        self.watch(context, polled)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        pieces: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let polled = Pin::new(&mut self.stream).poll_write_vectored(context, pieces);
        self.watch(context, polled)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(context)
    }
}
