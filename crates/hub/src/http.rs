//! One GET request for a file or a stretch of it, through redirects, with every failure named.
//!
//! Redirects are followed here rather than by the HTTP library, because the hub names the file's version in the answer
//! that redirects, and because the token must go to the hub alone: same scheme, same host, same port. Bodies are asked
//! for and taken as they are; an answer that is compressed on the way is refused, since its ranges and length would
//! mean something else. Retrying is the caller's business.

use std::io::{self, ErrorKind, Read};
use std::ops::Range;
use std::time::Duration;

use ureq::Agent;
use ureq::http::header::{
    ACCEPT_ENCODING, AUTHORIZATION, CONTENT_ENCODING, CONTENT_LENGTH, CONTENT_RANGE, ETAG, HeaderMap, LOCATION, RANGE,
    RETRY_AFTER,
};
use ureq::http::{Request, Response, Uri};
use ureq::{Body, BodyReader, Proxy};

use crate::{Error, Limits, Settings, Token};

/// Redirects that are followed.
const REDIRECTS_MAX: usize = 10;
/// Bytes of the longest version name that is kept.
const TAG_BYTES_MAX: usize = 256;
/// The hub's name for the version of a file, in an answer that redirects to where the file lies.
const LINKED_TAG: &str = "x-linked-etag";

/// An HTTP client for one pull.
pub(crate) struct Client {
    agent: Agent,
    hub: Uri,
    token: Option<Token>,
    limits: Limits,
}

/// An answer with a body.
pub(crate) struct Answer {
    /// The server that gave it.
    pub(crate) host: String,
    /// What part of the file it is.
    pub(crate) part: Part,
    /// Name of the file's version, if the server gives one.
    pub(crate) tag: Option<String>,
    body: BodyReader<'static>,
    stall: Duration,
}

/// What part of the file an answer brings.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Part {
    /// All of it, with its length if the server says so.
    Whole { n_bytes: Option<u64> },
    /// The bytes from `start` and before `end`, with the length of the whole if the server says so.
    Piece { start: u64, end: u64, total: Option<u64> },
    /// Nothing: the file ends before what was asked for.
    PastEnd,
}

impl Client {
    pub(crate) fn new(settings: &Settings) -> Result<Client, Error> {
        let proxy = settings.proxy.as_deref().map(|address| Proxy::new(address).map_err(|_| Error::BadProxy));
        let limits = settings.limits;
        let config = Agent::config_builder()
            .proxy(proxy.transpose()?)
            .user_agent(concat!("zinc/", env!("CARGO_PKG_VERSION")))
            .accept("*/*")
            .http_status_as_error(false)
            .max_redirects(0)
            .max_redirects_will_error(false)
            .max_idle_connections(0)
            .timeout_resolve(Some(limits.connect))
            .timeout_connect(Some(limits.connect))
            .timeout_recv_response(Some(limits.response))
            .timeout_per_read(Some(limits.stall))
            .build();
        let hub = hub_address(&settings.hub_url)?;
        Ok(Client { agent: Agent::new_with_config(config), hub, token: settings.token.clone(), limits })
    }

    /// The address of a file of the hub.
    pub(crate) fn address(&self, repository: &str, revision: &str, file: &str) -> String {
        format!("{}/{repository}/resolve/{revision}/{file}", self.hub.to_string().trim_end_matches('/'))
    }

    /// The address where the hub lists the files of a repository, with their sizes and sums.
    pub(crate) fn listing_address(&self, repository: &str, revision: &str) -> String {
        format!("{}/api/models/{repository}/revision/{revision}?blobs=true", self.hub.to_string().trim_end_matches('/'))
    }

    /// A handle that ends requests in flight.
    pub(crate) fn interrupter(&self) -> Agent {
        self.agent.clone()
    }

    /// Asks for the whole file at `url`.
    pub(crate) fn get_whole(&self, url: &str) -> Result<Answer, Error> {
        self.get(url, None)
    }

    /// Asks for bytes of the file of `size` bytes at `url`; for the whole without naming a range.
    pub(crate) fn get_piece(&self, url: &str, piece: &Range<u64>, size: u64) -> Result<Answer, Error> {
        let range = match (piece.start, piece.end) {
            (0, end) if end == size => None,
            (start, end) if end == size => Some(format!("bytes={start}-")),
            (start, end) => Some(format!("bytes={start}-{}", end.saturating_sub(1))),
        };
        self.get(url, range)
    }

    fn get(&self, url: &str, range: Option<String>) -> Result<Answer, Error> {
        let mut uri: Uri = url.parse().map_err(|_| Error::BadHubUrl { url: url.to_owned() })?;
        let mut linked_tag = None;
        for _ in 0..=REDIRECTS_MAX {
            let host = host_of(&uri);
            let response = self.send(&uri, range.as_deref(), &host)?;
            linked_tag = linked_tag.or_else(|| header(response.headers(), LINKED_TAG).map(short));
            match response.status().as_u16() {
                301 | 302 | 303 | 307 | 308 => uri = next(&uri, &host, response.headers())?,
                200 | 206 | 416 => return self.answer(response, host, linked_tag),
                status @ (401 | 403) => return Err(Error::Denied { host, url: url.to_owned(), status }),
                status @ (404 | 410) => return Err(Error::NotThere { host, url: url.to_owned(), status }),
                status => return Err(Error::Status { host, status, retry_after: retry_after(response.headers()) }),
            }
        }
        Err(Error::BadAnswer { host: host_of(&uri), what: format!("more than {REDIRECTS_MAX} redirects") })
    }

    fn send(&self, uri: &Uri, range: Option<&str>, host: &str) -> Result<Response<Body>, Error> {
        let mut request = Request::get(uri).header(ACCEPT_ENCODING, "identity");
        if let Some(range) = range {
            request = request.header(RANGE, range);
        }
        if let (Some(token), true) = (&self.token, self.may_know_token(uri)) {
            request = request.header(AUTHORIZATION, format!("Bearer {}", token.expose()));
        }
        let bad = |error: ureq::http::Error| Error::BadAnswer { host: host.to_owned(), what: error.to_string() };
        self.agent.run(request.body(()).map_err(bad)?).map_err(|error| self.failed(error, host))
    }

    /// The token goes to the hub's own origin, and not in the clear over a network.
    fn may_know_token(&self, uri: &Uri) -> bool {
        let here = matches!(uri.host(), Some("127.0.0.1" | "[::1]" | "localhost"));
        origin(uri) == origin(&self.hub) && (uri.scheme_str() == Some("https") || here)
    }

    fn answer(&self, response: Response<Body>, host: String, linked_tag: Option<String>) -> Result<Answer, Error> {
        let headers = response.headers();
        if let Some(encoding) = header(headers, CONTENT_ENCODING.as_str()).filter(|e| *e != "identity") {
            let what = format!("it is compressed ({}), which was not asked for", encoding.escape_debug());
            return Err(Error::BadAnswer { host, what });
        }
        let part = match response.status().as_u16() {
            200 => Part::Whole { n_bytes: header(headers, CONTENT_LENGTH.as_str()).and_then(|n| n.parse().ok()) },
            206 => match header(headers, CONTENT_RANGE.as_str()).and_then(piece) {
                Some(part) => part,
                None => return Err(Error::BadAnswer { host, what: "a part that does not say which".to_owned() }),
            },
            _ => Part::PastEnd,
        };
        let tag = linked_tag.or_else(|| header(headers, ETAG.as_str()).map(short));
        Ok(Answer { host, part, tag, body: response.into_body().into_reader(), stall: self.limits.stall })
    }

    /// A request that brought no answer.
    fn failed(&self, error: ureq::Error, host: &str) -> Error {
        let host = host.to_owned();
        match error {
            ureq::Error::Timeout(ureq::Timeout::Resolve | ureq::Timeout::Connect) => {
                Error::Unreachable { host, reason: format!("no answer within {} s", self.limits.connect.as_secs_f32()) }
            }
            ureq::Error::Timeout(ureq::Timeout::PerRead) => Error::Stalled { host, limit: self.limits.stall },
            ureq::Error::Timeout(_) => Error::Stalled { host, limit: self.limits.response },
            ureq::Error::Io(error) if is_cut(&error) => Error::Cut { host, reason: error.to_string() },
            // A name that does not resolve, a refused connection, a network that is down: trying again is the user's
            // decision, and another source may be at hand.
            ureq::Error::Io(error) => Error::Unreachable { host, reason: error.to_string() },
            ureq::Error::HostNotFound | ureq::Error::ConnectionFailed | ureq::Error::Tls(_) => {
                Error::Unreachable { host, reason: error.to_string() }
            }
            ureq::Error::Rustls(error) => Error::Unreachable { host, reason: error.to_string() },
            ureq::Error::ConnectProxyFailed(reason) => {
                Error::Unreachable { host, reason: format!("the proxy refused: {}", reason.escape_debug()) }
            }
            error => Error::BadAnswer { host, what: error.to_string().escape_debug().to_string() },
        }
    }
}

impl Answer {
    /// Reads on; 0 at the end of the answer.
    pub(crate) fn read(&mut self, chunk: &mut [u8]) -> Result<usize, Error> {
        loop {
            match self.body.read(chunk) {
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                read => return read.map_err(|error| self.broke(error)),
            }
        }
    }

    fn broke(&self, error: io::Error) -> Error {
        let host = self.host.clone();
        match ureq::Error::from(error) {
            ureq::Error::Timeout(_) => Error::Stalled { host, limit: self.stall },
            error => Error::Cut { host, reason: error.to_string().escape_debug().to_string() },
        }
    }
}

/// Whether the connection was there and broke.
fn is_cut(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        ErrorKind::ConnectionReset
            | ErrorKind::ConnectionAborted
            | ErrorKind::UnexpectedEof
            | ErrorKind::BrokenPipe
            | ErrorKind::NotConnected
    )
}

fn hub_address(url: &str) -> Result<Uri, Error> {
    let bad = || Error::BadHubUrl { url: url.to_owned() };
    let uri: Uri = url.trim_end_matches('/').parse().map_err(|_| bad())?;
    let plain = uri.query().is_none() && uri.authority().is_some_and(|authority| !authority.as_str().contains('@'));
    match (uri.scheme_str(), plain) {
        (Some("http" | "https"), true) => Ok(uri),
        _ => Err(bad()),
    }
}

/// Where a redirect leads. Never from an encrypted connection to an open one.
fn next(from: &Uri, host: &str, headers: &HeaderMap) -> Result<Uri, Error> {
    let bad = |what: &str| Error::BadAnswer { host: host.to_owned(), what: what.to_owned() };
    let location = header(headers, LOCATION.as_str()).ok_or_else(|| bad("a redirect without an address"))?;
    let (scheme, authority) = (from.scheme_str().unwrap_or("https"), from.authority().map_or("", |a| a.as_str()));
    let to = if location.contains("://") {
        location.to_owned()
    } else if location.starts_with("//") {
        format!("{scheme}:{location}")
    } else if location.starts_with('/') {
        format!("{scheme}://{authority}{location}")
    } else {
        let folder = from.path().rsplit_once('/').map_or("", |(folder, _)| folder);
        format!("{scheme}://{authority}{folder}/{location}")
    };
    let to: Uri = to.parse().map_err(|_| bad("a redirect to something that is no address"))?;
    match (scheme, to.scheme_str()) {
        ("http", Some("http" | "https")) | ("https", Some("https")) => Ok(to),
        _ => Err(bad("a redirect away from https")),
    }
}

/// Scheme, host and port, which make up who is spoken to.
fn origin(uri: &Uri) -> (Option<&str>, Option<String>, u16) {
    let port = uri.port_u16().unwrap_or(if uri.scheme_str() == Some("http") { 80 } else { 443 });
    (uri.scheme_str(), uri.host().map(str::to_ascii_lowercase), port)
}

fn host_of(uri: &Uri) -> String {
    uri.host().unwrap_or_default().to_owned()
}

fn header<'a>(headers: &'a HeaderMap, name: &str) -> Option<&'a str> {
    headers.get(name)?.to_str().ok()
}

fn short(tag: &str) -> String {
    tag.chars().take(TAG_BYTES_MAX).collect()
}

/// `bytes FIRST-LAST/TOTAL`.
fn piece(range: &str) -> Option<Part> {
    let (span, total) = range.strip_prefix("bytes ")?.split_once('/')?;
    let (first, last) = span.split_once('-')?;
    let (start, last): (u64, u64) = (first.parse().ok()?, last.parse().ok()?);
    let total = match total {
        "*" => None,
        total => Some(total.parse::<u64>().ok()?),
    };
    let end = last.checked_add(1)?;
    let is_sound = start < end && total.is_none_or(|total| end <= total);
    is_sound.then_some(Part::Piece { start, end, total })
}

/// Only the form in seconds; a date would need a clock that is right.
fn retry_after(headers: &HeaderMap) -> Option<Duration> {
    header(headers, RETRY_AFTER.as_str())?.trim().parse().ok().map(Duration::from_secs)
}

#[cfg(test)]
mod tests {
    use super::{Error, HeaderMap, LOCATION, Part, Uri, hub_address, next, origin, piece};

    #[test]
    fn redirects_lead_where_they_say_but_never_away_from_https() {
        let cases = [
            ("https://hub/a/b", "https://cdn/x?y=1", Some("https://cdn/x?y=1")),
            ("https://hub/a/b", "/x", Some("https://hub/x")),
            ("https://hub/a/b", "//cdn/x", Some("https://cdn/x")),
            ("https://hub/a/b", "c", Some("https://hub/a/c")),
            ("http://hub:81/a/b", "/x", Some("http://hub:81/x")),
            ("http://hub/a", "https://hub/a", Some("https://hub/a")),
            ("https://hub/a", "http://hub/a", None),
            ("https://hub/a", "file:///etc/passwd", None),
            ("http://hub/a", "ftp://hub/a", None),
            ("https://hub/a", "https://", None),
        ];
        for (from, location, to) in cases {
            let mut headers = HeaderMap::new();
            headers.insert(LOCATION, location.parse().unwrap());
            let found = next(&from.parse().unwrap(), "hub", &headers).ok();
            assert_eq!(found, to.map(|to| to.parse::<Uri>().unwrap()), "{from} {location}");
        }
        assert!(next(&"https://hub/a".parse().unwrap(), "hub", &HeaderMap::new()).is_err());
    }

    #[test]
    fn an_origin_is_scheme_host_and_port() {
        let same = |a: &str, b: &str| origin(&a.parse().unwrap()) == origin(&b.parse().unwrap());
        assert!(same("https://hub/a", "https://HUB:443/b"));
        assert!(!same("https://hub/", "https://hub:444/"));
        assert!(!same("https://hub/", "http://hub/"));
        assert!(!same("https://hub/", "https://hub.example/"));
    }

    #[test]
    fn pieces_say_which_they_are() {
        let cases = [
            ("bytes 5-9/10", Some(Part::Piece { start: 5, end: 10, total: Some(10) })),
            ("bytes 5-9/*", Some(Part::Piece { start: 5, end: 10, total: None })),
            ("bytes 5-8/10", Some(Part::Piece { start: 5, end: 9, total: Some(10) })),
            ("bytes 5-10/10", None),
            ("bytes 9-5/10", None),
            ("bytes 5-18446744073709551615/0", None),
            ("bytes */10", None),
            ("items 5-9/10", None),
            ("bytes 5-9", None),
            ("", None),
        ];
        for (text, part) in cases {
            assert_eq!(piece(text), part, "{text}");
        }
    }

    #[test]
    fn the_hub_has_a_plain_address() {
        for good in ["https://huggingface.co", "http://127.0.0.1:8080/", "https://mirror.example/hub/"] {
            hub_address(good).unwrap();
        }
        for bad in ["", "huggingface.co", "ftp://a", "https://", "https://user:password@a", "https://a?b", "a b"] {
            assert!(matches!(hub_address(bad), Err(Error::BadHubUrl { .. })), "{bad}");
        }
    }
}
