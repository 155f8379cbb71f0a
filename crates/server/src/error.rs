//! What a client is told when something is wrong, in the shape that its library expects.

use axum::body::Body;
use axum::http::{HeaderValue, Response, StatusCode, header};
use serde_json::{Value, json};

/// An answer that is an error.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ApiError {
    /// The status of the answer.
    pub status: StatusCode,
    /// A word for programs, such as `model_not_found`.
    pub code: &'static str,
    /// The field of the request that it is about.
    pub param: Option<String>,
    /// One sentence: what was wrong, and what to do.
    pub message: String,
    /// Seconds after which to try again.
    pub retry_after_s: Option<u32>,
}

/// The API whose error shape is wanted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Shape {
    /// `{"error": {"message", "type", "param", "code"}}`.
    OpenAi,
    /// `{"type": "error", "error": {"type", "message"}}`.
    Anthropic,
}

impl ApiError {
    /// An error of this status.
    pub fn new(status: StatusCode, code: &'static str, message: impl Into<String>) -> ApiError {
        ApiError { status, code, param: None, message: message.into(), retry_after_s: None }
    }

    /// 400 about a field.
    pub fn field(param: impl Into<String>, message: impl Into<String>) -> ApiError {
        ApiError::bad("invalid_value", message).about(param)
    }

    /// 400.
    pub fn bad(code: &'static str, message: impl Into<String>) -> ApiError {
        ApiError::new(StatusCode::BAD_REQUEST, code, message)
    }

    /// 404.
    pub fn not_found(code: &'static str, message: impl Into<String>) -> ApiError {
        ApiError::new(StatusCode::NOT_FOUND, code, message)
    }

    /// 503, worth another try.
    pub fn unavailable(code: &'static str, message: impl Into<String>) -> ApiError {
        ApiError::new(StatusCode::SERVICE_UNAVAILABLE, code, message).retry_after(5)
    }

    /// Names the field.
    #[must_use]
    pub fn about(mut self, param: impl Into<String>) -> ApiError {
        self.param = Some(param.into());
        self
    }

    /// Names the time after which to try again.
    #[must_use]
    pub fn retry_after(mut self, seconds: u32) -> ApiError {
        self.retry_after_s = Some(seconds);
        self
    }

    /// OpenAI's word for the kind.
    fn kind(&self) -> &'static str {
        match self.status.as_u16() {
            401 => "authentication_error",
            403 => "permission_error",
            404 => "not_found_error",
            429 => "rate_limit_error",
            503 => "service_unavailable_error",
            400..=499 => "invalid_request_error",
            _ => "server_error",
        }
    }

    /// Anthropic's word for the kind.
    fn anthropic_kind(&self) -> &'static str {
        match self.status.as_u16() {
            401 => "authentication_error",
            403 => "permission_error",
            404 => "not_found_error",
            413 => "request_too_large",
            429 => "rate_limit_error",
            503 => "overloaded_error",
            400..=499 => "invalid_request_error",
            _ => "api_error",
        }
    }

    /// The body.
    pub fn body(&self, shape: Shape) -> Value {
        match shape {
            Shape::OpenAi => json!({"error": {
                "message": self.message, "type": self.kind(), "param": self.param, "code": self.code,
            }}),
            Shape::Anthropic => json!({"type": "error", "error": {
                "type": self.anthropic_kind(), "message": self.message,
            }}),
        }
    }

    /// The whole answer.
    pub fn response(&self, shape: Shape) -> Response<Body> {
        let mut response = json_response(self.status, &self.body(shape));
        if let Some(seconds) = self.retry_after_s {
            response.headers_mut().insert(header::RETRY_AFTER, HeaderValue::from(seconds));
        }
        if self.status == StatusCode::UNAUTHORIZED {
            response.headers_mut().insert(header::WWW_AUTHENTICATE, HeaderValue::from_static("Bearer"));
        }
        response
    }
}

/// An answer of JSON.
pub(crate) fn json_response(status: StatusCode, body: &Value) -> Response<Body> {
    let mut response = Response::new(Body::from(body.to_string()));
    *response.status_mut() = status;
    response.headers_mut().insert(header::CONTENT_TYPE, HeaderValue::from_static("application/json"));
    response
}

#[cfg(test)]
mod tests {
    use super::{ApiError, Shape};
    use serde_json::json;

    #[test]
    fn each_api_gets_its_own_shape() {
        let error = ApiError::field("top_p", "`top_p` is 2; it must be 0 to 1");
        let openai = json!({"error": {"message": "`top_p` is 2; it must be 0 to 1", "type": "invalid_request_error",
            "param": "top_p", "code": "invalid_value"}});
        assert_eq!(error.body(Shape::OpenAi), openai);
        let anthropic = json!({"type": "error", "error": {"type": "invalid_request_error",
            "message": "`top_p` is 2; it must be 0 to 1"}});
        assert_eq!(error.body(Shape::Anthropic), anthropic);
        let busy = ApiError::unavailable("loading", "wait").response(Shape::OpenAi);
        assert_eq!((busy.status().as_u16(), busy.headers()["retry-after"].to_str().unwrap()), (503, "5"));
    }
}
