//! `POST /v1/embeddings`: refused with a clear word, since no architecture of this engine has a pooling head.

use axum::body::Body;
use axum::extract::{Request, State};
use axum::http::Response;

use crate::error::ApiError;
use crate::fields::Fields;
use crate::router::openai_answer;
use crate::state::App;
use crate::work;

pub(crate) async fn handle(State(app): State<App>, request: Request) -> Response<Body> {
    openai_answer(refuse(app, request).await)
}

async fn refuse(app: App, request: Request) -> Result<Response<Body>, ApiError> {
    let incoming = work::incoming(&app, request).await?;
    let mut fields = Fields::parse(&incoming.body)?;
    let name = fields.text("model")?;
    let input = fields.any("input");
    fields.required("input", input)?;
    let model = work::model(&app, &incoming.record, name.as_deref()).await?;
    let message = format!(
        "the model {} generates text and gives no embeddings; load an embedding model elsewhere",
        crate::fields::quoted(&model.id)
    );
    Err(ApiError::bad("model_cannot_embed", message).about("model"))
}
