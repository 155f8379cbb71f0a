//! Who may call: names of this host, against DNS rebinding, and origins of pages, for browsers.

use std::net::IpAddr;

use axum::body::Body;
use axum::http::{HeaderMap, HeaderValue, Method, Response, StatusCode, header};

use crate::config::ServerConfig;
use crate::error::ApiError;

/// Headers that pages of allowed origins may send and read.
const ALLOWED: &str = "authorization, content-type, x-api-key, anthropic-version, anthropic-beta, last-event-id, \
                       x-stainless-arch, x-stainless-async, x-stainless-helper-method, x-stainless-lang, x-stainless-os, \
                       x-stainless-package-version, x-stainless-poll-helper, x-stainless-retry-count, \
                       x-stainless-runtime, x-stainless-runtime-version, x-stainless-timeout";
const EXPOSED: &str = "x-request-id, retry-after";

/// Refuses a request that was sent to a name which is not this host's: a page whose name was made to point here.
pub(crate) fn check_host(config: &ServerConfig, headers: &HeaderMap) -> Result<(), ApiError> {
    let host = headers.get(header::HOST).and_then(|value| value.to_str().ok()).unwrap_or_default();
    let name = host_name(host);
    let is_known = name.eq_ignore_ascii_case("localhost")
        || name.parse::<IpAddr>().is_ok()
        || config.hosts.iter().any(|known| known == "*" || known.eq_ignore_ascii_case(name));
    if is_known {
        return Ok(());
    }
    let message = format!(
        "the request was sent to {}, which is not a name of this server; allow it with --allow-host",
        crate::fields::quoted(name)
    );
    Err(ApiError::new(StatusCode::MISDIRECTED_REQUEST, "unknown_host", message))
}

/// The name in `name:port`, `[::1]:port`.
fn host_name(host: &str) -> &str {
    match host.strip_prefix('[') {
        Some(rest) => rest.split(']').next().unwrap_or_default(),
        None => host.rsplit_once(':').map_or(host, |(name, _)| name),
    }
}

/// What a page's origin may do.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Origin {
    /// No page, or a page of this server.
    Own,
    /// A page of an origin that is allowed; answers say so.
    Allowed(HeaderValue),
    /// Any other page.
    Foreign,
}

/// Looks at the origin of a request.
pub(crate) fn origin(config: &ServerConfig, headers: &HeaderMap) -> Origin {
    let Some(value) = headers.get(header::ORIGIN) else { return Origin::Own };
    let text = value.to_str().unwrap_or_default();
    let host = headers.get(header::HOST).and_then(|value| value.to_str().ok()).unwrap_or_default();
    if text.split_once("://").is_some_and(|(_, rest)| rest.eq_ignore_ascii_case(host)) {
        return Origin::Own;
    }
    if config.origins.iter().any(|allowed| allowed == "*") {
        return Origin::Allowed(HeaderValue::from_static("*"));
    }
    match config.origins.iter().any(|allowed| allowed.eq_ignore_ascii_case(text)) {
        true => Origin::Allowed(value.clone()),
        false => Origin::Foreign,
    }
}

impl Origin {
    /// The answer to a preflight.
    pub(crate) fn preflight(&self) -> Response<Body> {
        let mut response = Response::new(Body::empty());
        *response.status_mut() = StatusCode::NO_CONTENT;
        if let Origin::Allowed(_) = self {
            let headers = response.headers_mut();
            headers
                .insert(header::ACCESS_CONTROL_ALLOW_METHODS, HeaderValue::from_static("GET, POST, DELETE, OPTIONS"));
            headers.insert(header::ACCESS_CONTROL_ALLOW_HEADERS, HeaderValue::from_static(ALLOWED));
            headers.insert(header::ACCESS_CONTROL_MAX_AGE, HeaderValue::from_static("600"));
        }
        self.mark(&mut response);
        response
    }

    /// Adds what the browser looks for.
    pub(crate) fn mark(&self, response: &mut Response<Body>) {
        let headers = response.headers_mut();
        headers.append(header::VARY, HeaderValue::from_static("origin"));
        if let Origin::Allowed(value) = self {
            headers.insert(header::ACCESS_CONTROL_ALLOW_ORIGIN, value.clone());
            headers.insert(header::ACCESS_CONTROL_EXPOSE_HEADERS, HeaderValue::from_static(EXPOSED));
        }
    }

    /// Refuses what a page of an origin that is not allowed wants to change.
    pub(crate) fn check(&self, method: &Method) -> Result<(), ApiError> {
        if *self == Origin::Foreign && *method != Method::GET && *method != Method::HEAD {
            let message = "pages of this origin may not call this server; allow it with --allow-origin";
            return Err(ApiError::new(StatusCode::FORBIDDEN, "origin_not_allowed", message));
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::host_name;

    #[test]
    fn the_port_is_no_part_of_the_name() {
        for (host, name) in [
            ("localhost:8080", "localhost"),
            ("[::1]:80", "::1"),
            ("a.b", "a.b"),
            ("127.0.0.1:1", "127.0.0.1"),
            ("", ""),
        ] {
            assert_eq!(host_name(host), name);
        }
    }
}
