//! What a server is started with, and the limits on what it takes from the network.

use std::net::SocketAddr;
use std::time::Duration;

use crate::auth::Keys;

/// The settings of a server.
#[derive(Clone, Debug)]
pub struct ServerConfig {
    /// Where it listens; port 0 lets the system choose.
    pub address: SocketAddr,
    /// Keys of which a client must show one; empty lets everybody in.
    pub keys: Keys,
    /// Names, besides localhost and literal addresses, by which clients may call this server.
    pub hosts: Vec<String>,
    /// Origins whose pages may call this server from a browser; `*` is any.
    pub origins: Vec<String>,
    /// What `/version` and `owned_by` say, for routers that look there.
    pub identity: Identity,
    /// What is refused.
    pub limits: Limits,
    /// Whether models are computed on the processor, whose cores the server's threads then share.
    pub shares_cores: bool,
}

/// How a server logs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LogConfig {
    /// The form of a line.
    pub format: LogFormat,
    /// Whether prompts and answers are written to the log.
    pub content: LogContent,
}

/// The form of a log line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LogFormat {
    /// Words for people.
    Text,
    /// One JSON object a line.
    Json,
}

/// Whether what people wrote reaches the log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LogContent {
    /// Never.
    None,
    /// The body of each request.
    Requests,
}

/// As whom the server presents itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Identity {
    /// As what it is.
    Zinc,
    /// With `owned_by: vllm`, for routers that know only that name and read the same metrics from both.
    Vllm,
}

impl Identity {
    /// The word in `owned_by`.
    #[must_use]
    pub const fn owner(self) -> &'static str {
        match self {
            Identity::Zinc => "zinc",
            Identity::Vllm => "vllm",
        }
    }
}

/// Bounds on what comes from outside.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Bytes of a request's body.
    pub body_bytes_max: usize,
    /// Bytes of a request's head.
    pub head_bytes_max: usize,
    /// Headers of a request.
    pub headers_max: usize,
    /// Time that a client has to send a request's head.
    pub head_time_max: Duration,
    /// Time between two pieces of a request's body.
    pub body_idle_max: Duration,
    /// Time that a client may leave a piece of an answer unread.
    pub write_idle_max: Duration,
    /// Connections at once.
    pub connections_max: usize,
    /// Messages of a conversation.
    pub messages_max: usize,
    /// Tools of a request.
    pub tools_max: usize,
    /// Levels of a JSON schema.
    pub schema_depth_max: usize,
    /// Bytes of a JSON schema, a regular expression or a grammar.
    pub grammar_bytes_max: usize,
    /// Stop strings of a request.
    pub stops_max: usize,
    /// Choices of a request.
    pub choices_max: u32,
    /// Time between two signs of life in a stream.
    pub keep_alive: Duration,
    /// Time that a resumable stream goes on without a reader, and is kept after its end.
    pub resume_idle_max: Duration,
    /// Time that running requests have to end after the server was told to stop.
    pub drain_max: Duration,
}

impl Limits {
    /// Roomy for people and agents, small enough that one client cannot exhaust the machine.
    pub const STANDARD: Limits = Limits {
        body_bytes_max: 32 << 20,
        head_bytes_max: 64 << 10,
        headers_max: 100,
        head_time_max: Duration::from_secs(10),
        body_idle_max: Duration::from_secs(30),
        write_idle_max: Duration::from_secs(300),
        connections_max: 1024,
        messages_max: 4096,
        tools_max: 256,
        schema_depth_max: 32,
        grammar_bytes_max: 256 << 10,
        stops_max: 16,
        choices_max: 16,
        keep_alive: Duration::from_secs(15),
        resume_idle_max: Duration::from_secs(30),
        drain_max: Duration::from_secs(30),
    };
}
