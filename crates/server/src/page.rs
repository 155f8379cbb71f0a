//! The chat page: its files, embedded in the program.
//!
//! Nothing of it comes from elsewhere and nothing of it may run but its own files, which the policy tells the browser.

use std::collections::HashMap;
use std::io::Write;
use std::sync::LazyLock;

use axum::body::Body;
use axum::http::{HeaderMap, HeaderValue, Response, StatusCode, header};
use flate2::Compression;
use flate2::write::GzEncoder;
use include_dir::{Dir, include_dir};
use sha2::{Digest, Sha256};

use crate::error::{ApiError, Shape};

static FILES: Dir<'static> = include_dir!("$CARGO_MANIFEST_DIR/page");

const POLICY: &str = "default-src 'self'; img-src 'self'; object-src 'none'; base-uri 'none'; frame-ancestors 'none'; \
                      form-action 'none'; require-trusted-types-for 'script'; trusted-types dompurify";
/// Files smaller than this are sent as they are.
const GZIP_BYTES_MIN: usize = 1024;

/// A file, ready to be sent.
struct Asset {
    bytes: &'static [u8],
    gzip: Option<Vec<u8>>,
    kind: &'static str,
    tag: HeaderValue,
}

/// By the path of an address.
static ASSETS: LazyLock<HashMap<String, Asset>> = LazyLock::new(|| {
    let mut assets = HashMap::new();
    collect(&FILES, &mut assets);
    assets
});

fn collect(folder: &'static Dir<'static>, assets: &mut HashMap<String, Asset>) {
    let hidden = |path: &str| path.rsplit('/').next().is_some_and(|name| name.starts_with('.'));
    for file in folder.files().filter(|file| !hidden(&file.path().to_string_lossy())) {
        let path = file.path().to_string_lossy().replace('\\', "/");
        assets.insert(format!("/{path}"), asset(&path, file.contents()));
        if path == "index.html" {
            assets.insert("/".to_owned(), asset(&path, file.contents()));
        }
    }
    folder.dirs().for_each(|folder| collect(folder, assets));
}

fn asset(path: &str, bytes: &'static [u8]) -> Asset {
    let kind = kind(path);
    let sum = Sha256::digest(bytes);
    let hex: String = sum.iter().take(12).map(|byte| format!("{byte:02x}")).collect();
    let tag = HeaderValue::from_str(&format!("\"{hex}\"")).expect("hexadecimal digits are plain text");
    let packed = || {
        let mut encoder = GzEncoder::new(Vec::new(), Compression::best());
        encoder.write_all(bytes).and_then(|()| encoder.finish()).ok().filter(|packed| packed.len() < bytes.len())
    };
    let gzip = if bytes.len() >= GZIP_BYTES_MIN && !kind.starts_with("font/") { packed() } else { None };
    Asset { bytes, gzip, kind, tag }
}

fn kind(path: &str) -> &'static str {
    match path.rsplit_once('.').map_or("", |(_, ending)| ending) {
        "html" => "text/html; charset=utf-8",
        "js" | "mjs" => "text/javascript; charset=utf-8",
        "css" => "text/css; charset=utf-8",
        "json" => "application/json",
        "webmanifest" => "application/manifest+json",
        "svg" => "image/svg+xml",
        "png" => "image/png",
        "ico" => "image/x-icon",
        "woff2" => "font/woff2",
        "txt" | "md" => "text/plain; charset=utf-8",
        _ => "application/octet-stream",
    }
}

/// The file at `path`.
pub(crate) fn serve(path: &str, headers: &HeaderMap) -> Response<Body> {
    let Some(asset) = ASSETS.get(path) else {
        let message = match path {
            "/" => "this build has no chat page; the API is under /v1",
            _ => "there is nothing at this path; /openapi.json lists what there is",
        };
        return ApiError::not_found("not_found", message).response(Shape::OpenAi);
    };
    let is_known = headers.get(header::IF_NONE_MATCH).is_some_and(|tags| {
        tags.to_str().is_ok_and(|tags| tags.split(',').any(|tag| tag.trim().as_bytes() == asset.tag.as_bytes()))
    });
    let accepts_gzip = headers
        .get(header::ACCEPT_ENCODING)
        .and_then(|value| value.to_str().ok())
        .is_some_and(|codings| codings.split(',').any(|c| c.split(';').next().unwrap_or_default().trim() == "gzip"));
    let packed = asset.gzip.as_deref().filter(|_| accepts_gzip);
    let body = match (is_known, packed) {
        (true, _) => Body::empty(),
        (false, Some(packed)) => Body::from(axum::body::Bytes::from_static(packed)),
        (false, None) => Body::from(axum::body::Bytes::from_static(asset.bytes)),
    };
    let mut response = Response::new(body);
    if is_known {
        *response.status_mut() = StatusCode::NOT_MODIFIED;
    }
    let headers = response.headers_mut();
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static(asset.kind));
    headers.insert(header::ETAG, asset.tag.clone());
    headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-cache"));
    headers.insert(header::VARY, HeaderValue::from_static("accept-encoding"));
    headers.insert(header::CONTENT_SECURITY_POLICY, HeaderValue::from_static(POLICY));
    headers.insert(header::REFERRER_POLICY, HeaderValue::from_static("no-referrer"));
    if packed.is_some() && !is_known {
        headers.insert(header::CONTENT_ENCODING, HeaderValue::from_static("gzip"));
    }
    response
}
