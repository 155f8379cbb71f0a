//! A client that sends what it is told, byte for byte.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

use serde_json::Value;

/// An answer.
#[derive(Debug)]
pub struct Answer {
    pub status: u16,
    pub headers: Vec<(String, String)>,
    pub body: String,
}

impl Answer {
    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|(key, _)| key.eq_ignore_ascii_case(name)).map(|(_, value)| value.as_str())
    }

    pub fn json(&self) -> Value {
        serde_json::from_str(&self.body).unwrap_or_else(|e| panic!("{e}: {}", self.body))
    }

    /// The data of the events in the body.
    pub fn events(&self) -> Vec<Value> {
        let data = self.body.lines().filter_map(|line| line.strip_prefix("data: "));
        data.filter(|text| *text != "[DONE]").map(|text| serde_json::from_str(text).unwrap()).collect()
    }
}

/// Opens a connection that does not wait for ever.
pub fn connect(address: SocketAddr) -> TcpStream {
    let stream = TcpStream::connect(address).unwrap();
    stream.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
    stream
}

/// Sends bytes and reads the answer; `None` if the connection closes without one.
pub fn send(address: SocketAddr, bytes: &[u8]) -> Option<Answer> {
    let mut stream = connect(address);
    // A server that has refused already may close before it has read everything.
    let _ = stream.write_all(bytes);
    read(&mut BufReader::new(stream))
}

/// Reads one answer.
pub fn read(reader: &mut BufReader<TcpStream>) -> Option<Answer> {
    let (status, headers) = read_head(reader)?;
    let find = |name: &str| headers.iter().find(|(key, _)| key.eq_ignore_ascii_case(name)).map(|(_, v)| v.as_str());
    let mut body = Vec::new();
    if find("transfer-encoding") == Some("chunked") {
        while let Some(chunk) = read_chunk(reader) {
            body.extend(chunk);
        }
    } else if let Some(length) = find("content-length") {
        body.resize(length.parse().unwrap(), 0);
        reader.read_exact(&mut body).ok()?;
    }
    Some(Answer { status, headers, body: String::from_utf8(body).unwrap() })
}

/// Reads a status and headers.
pub fn read_head(reader: &mut BufReader<TcpStream>) -> Option<(u16, Vec<(String, String)>)> {
    let mut line = String::new();
    reader.read_line(&mut line).ok()?;
    let status = line.split(' ').nth(1)?.parse().ok()?;
    let mut headers = Vec::new();
    loop {
        line.clear();
        reader.read_line(&mut line).ok()?;
        let Some((key, value)) = line.trim_end().split_once(':') else { return Some((status, headers)) };
        headers.push((key.to_owned(), value.trim().to_owned()));
    }
}

/// Reads a chunk; nothing after the last one.
pub fn read_chunk(reader: &mut BufReader<TcpStream>) -> Option<Vec<u8>> {
    let mut line = String::new();
    reader.read_line(&mut line).ok()?;
    let size = usize::from_str_radix(line.trim(), 16).ok()?;
    let mut chunk = vec![0; size + 2];
    reader.read_exact(&mut chunk).ok()?;
    chunk.truncate(size);
    (size > 0).then_some(chunk)
}

/// A request as text.
pub fn request(method: &str, path: &str, headers: &[(&str, &str)], body: &str) -> Vec<u8> {
    let mut text = format!("{method} {path} HTTP/1.1\r\n");
    if !headers.iter().any(|(key, _)| key.eq_ignore_ascii_case("host")) {
        text.push_str("Host: localhost\r\n");
    }
    for (key, value) in headers {
        text.push_str(&format!("{key}: {value}\r\n"));
    }
    if !body.is_empty() || method == "POST" {
        text.push_str(&format!("Content-Length: {}\r\n", body.len()));
    }
    text.push_str("Connection: close\r\n\r\n");
    text.push_str(body);
    text.into_bytes()
}

pub fn get(address: SocketAddr, path: &str) -> Answer {
    send(address, &request("GET", path, &[], "")).unwrap()
}

pub fn post(address: SocketAddr, path: &str, body: &Value) -> Answer {
    let headers = [("Content-Type", "application/json")];
    send(address, &request("POST", path, &headers, &body.to_string())).unwrap()
}
