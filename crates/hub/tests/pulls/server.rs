//! An HTTP server that does what a test tells it to, request by request, and counts what it sent.
//!
//! One connection carries one request. Everything waits on sockets and channels, nothing on the clock.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{Ipv4Addr, Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, mpsc};
use std::thread;

/// A request as it came.
#[derive(Clone, Debug)]
pub(crate) struct Request {
    pub(crate) line: String,
    pub(crate) headers: Vec<(String, String)>,
}

impl Request {
    /// A header's value.
    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|(key, _)| key.eq_ignore_ascii_case(name)).map(|(_, value)| value.as_str())
    }

    /// The first and, if it is named, the last byte that a `Range` asks for.
    fn range(&self) -> Option<(usize, Option<usize>)> {
        let (first, last) = self.header("range")?.strip_prefix("bytes=")?.split_once('-')?;
        Some((first.parse().ok()?, last.parse().ok()))
    }

    /// The offset that a `Range` asks for, 0 without one.
    pub(crate) fn offset(&self) -> usize {
        self.range().map_or(0, |(first, _)| first)
    }
}

/// An answer: head, body, and what happens after so many bytes of the body.
#[derive(Debug)]
pub(crate) struct Reply {
    status: u16,
    headers: Vec<String>,
    body: Vec<u8>,
    sent: usize,
    then: Then,
}

/// What happens after the last byte that is sent.
pub(crate) enum Then {
    /// The connection ends.
    End,
    /// Nothing more comes, until the client goes away.
    Silence,
    /// The script does something, then the rest of the body follows.
    Call(Box<dyn FnOnce() + Send>),
}

impl std::fmt::Debug for Then {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Then::End => "End",
            Then::Silence => "Silence",
            Then::Call(_) => "Call",
        })
    }
}

impl Reply {
    /// A status without a body.
    pub(crate) fn status(status: u16) -> Reply {
        Reply { status, headers: vec!["Content-Length: 0".into()], body: Vec::new(), sent: 0, then: Then::End }
    }

    /// A redirect.
    pub(crate) fn redirect(location: &str) -> Reply {
        Reply::status(302).header("Location", location)
    }

    /// A whole body.
    pub(crate) fn whole(body: &[u8]) -> Reply {
        let headers = vec![format!("Content-Length: {}", body.len())];
        Reply { status: 200, headers, body: body.to_vec(), sent: body.len(), then: Then::End }
    }

    /// What a sound server answers: the whole, or the rest from an offset, or that there is none.
    pub(crate) fn file(content: &[u8], request: &Request) -> Reply {
        match request.range() {
            None => Reply::whole(content),
            Some((first, _)) if first >= content.len() => {
                Reply::status(416).header("Content-Range", &format!("bytes */{}", content.len()))
            }
            Some((first, last)) => {
                let last = last.unwrap_or(usize::MAX).min(content.len() - 1);
                let range = format!("bytes {first}-{last}/{}", content.len());
                Reply { status: 206, ..Reply::whole(&content[first..=last]) }.header("Content-Range", &range)
            }
        }
    }

    pub(crate) fn header(mut self, name: &str, value: &str) -> Reply {
        self.headers.push(format!("{name}: {value}"));
        self
    }

    /// The head does not say how long the body is.
    pub(crate) fn without_length(mut self) -> Reply {
        self.headers.retain(|header| !header.starts_with("Content-Length"));
        self
    }

    /// Calls itself a part of a version, whatever the body is.
    pub(crate) fn part_of(self, tag: &str, range: &str) -> Reply {
        let length = format!("Content-Length: {}", self.body.len());
        Reply { status: 206, headers: vec![length], ..self }.header("ETag", tag).header("Content-Range", range)
    }

    /// Only so many bytes of the body, then the end.
    pub(crate) fn cut_at(mut self, n: usize) -> Reply {
        self.sent = n.min(self.body.len());
        self
    }

    /// Only so many bytes of the body, then silence.
    pub(crate) fn silent_at(self, n: usize) -> Reply {
        Reply { then: Then::Silence, ..self.cut_at(n) }
    }

    /// So many bytes of the body, then `call`, then the rest.
    pub(crate) fn call_at(self, n: usize, call: impl FnOnce() + Send + 'static) -> Reply {
        Reply { then: Then::Call(Box::new(call)), ..self.cut_at(n) }
    }
}

type Script = dyn Fn(usize, &Request) -> Reply + Send + Sync;

/// A running server.
pub(crate) struct Server {
    address: SocketAddr,
    requests: Arc<Mutex<Vec<Request>>>,
    body_bytes: Arc<AtomicU64>,
    stopped: Arc<AtomicBool>,
    accepting: Option<thread::JoinHandle<()>>,
}

impl Server {
    /// Answers the n-th request, from 0, with what `script` says.
    pub(crate) fn start(script: impl Fn(usize, &Request) -> Reply + Send + Sync + 'static) -> Server {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        let address = listener.local_addr().unwrap();
        let script: Arc<Script> = Arc::new(script);
        let requests = Arc::new(Mutex::new(Vec::new()));
        let (body_bytes, stopped) = (Arc::new(AtomicU64::new(0)), Arc::new(AtomicBool::new(false)));
        let (log, sent, stop) = (requests.clone(), body_bytes.clone(), stopped.clone());
        let accepting = thread::spawn(move || {
            for connection in listener.incoming() {
                if stop.load(Ordering::SeqCst) {
                    return;
                }
                let (script, log, sent) = (script.clone(), log.clone(), sent.clone());
                thread::spawn(move || serve(connection.unwrap(), &*script, &log, &sent));
            }
        });
        Server { address, requests, body_bytes, stopped, accepting: Some(accepting) }
    }

    /// A sound server of one file.
    pub(crate) fn of_file(content: &[u8]) -> Server {
        let content = content.to_vec();
        Server::start(move |_, request| Reply::file(&content, request).header("ETag", "\"v1\""))
    }

    /// Its address under a numeric host.
    pub(crate) fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    /// Its address under another host's name.
    pub(crate) fn url_by_name(&self) -> String {
        format!("http://localhost:{}", self.address.port())
    }

    pub(crate) fn requests(&self) -> Vec<Request> {
        self.requests.lock().unwrap().clone()
    }

    /// Bytes of bodies sent so far.
    pub(crate) fn body_bytes(&self) -> u64 {
        self.body_bytes.load(Ordering::SeqCst)
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.stopped.store(true, Ordering::SeqCst);
        // Wakes the listener, which then sees that it is to stop.
        drop(TcpStream::connect(self.address));
        if let Some(accepting) = self.accepting.take() {
            accepting.join().unwrap();
        }
    }
}

/// A forward proxy for one tunnel; the first line of each request to it goes into the channel.
pub(crate) fn proxy() -> (String, mpsc::Receiver<String>) {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    let (sender, lines) = mpsc::channel();
    thread::spawn(move || {
        let (mut client, _) = listener.accept().unwrap();
        let request = read_request(&mut BufReader::new(client.try_clone().unwrap())).unwrap();
        let target = request.line.split(' ').nth(1).unwrap().to_owned();
        sender.send(request.line).unwrap();
        let mut server = TcpStream::connect(target).unwrap();
        client.write_all(b"HTTP/1.1 200 Connection established\r\n\r\n").unwrap();
        let (mut up_from, mut up_to) = (client.try_clone().unwrap(), server.try_clone().unwrap());
        thread::spawn(move || drop(std::io::copy(&mut up_from, &mut up_to)));
        drop(std::io::copy(&mut server, &mut client));
        drop(client.shutdown(Shutdown::Write));
    });
    (url, lines)
}

fn serve(mut connection: TcpStream, script: &Script, log: &Mutex<Vec<Request>>, sent: &AtomicU64) {
    let mut reader = BufReader::new(connection.try_clone().unwrap());
    let Some(request) = read_request(&mut reader) else { return };
    let index = {
        let mut log = log.lock().unwrap();
        log.push(request.clone());
        log.len() - 1
    };
    let reply = script(index, &request);
    let headers: String = reply.headers.iter().map(|header| format!("{header}\r\n")).collect();
    let head = format!("HTTP/1.1 {} X\r\nConnection: close\r\n{headers}\r\n", reply.status);
    let went = connection.write_all(head.as_bytes()).is_ok() && send(&mut connection, &reply.body[..reply.sent], sent);
    if !went {
        return;
    }
    match reply.then {
        Then::End => {}
        Then::Silence => return drain(&mut reader),
        Then::Call(call) => {
            call();
            if !send(&mut connection, &reply.body[reply.sent..], sent) {
                return;
            }
        }
    }
    // An orderly end: the client gets all that was sent, and no reset.
    drop(connection.shutdown(Shutdown::Write));
    drain(&mut reader);
}

/// Counts before the client can have seen the bytes. A client that has gone away is not an error of the server.
fn send(connection: &mut TcpStream, body: &[u8], sent: &AtomicU64) -> bool {
    sent.fetch_add(body.len() as u64, Ordering::SeqCst);
    connection.write_all(body).is_ok()
}

/// Waits until the client goes away.
fn drain(reader: &mut impl Read) {
    drop(std::io::copy(reader, &mut std::io::sink()));
}

fn read_request(reader: &mut impl BufRead) -> Option<Request> {
    let mut lines = Vec::new();
    loop {
        let mut line = String::new();
        if reader.read_line(&mut line).ok()? == 0 {
            return None;
        }
        match line.trim_end() {
            "" => break,
            line => lines.push(line.to_owned()),
        }
    }
    let headers = lines.iter().skip(1).filter_map(|line| line.split_once(": "));
    let headers = headers.map(|(key, value)| (key.to_owned(), value.to_owned())).collect();
    Some(Request { line: lines.first()?.clone(), headers })
}
