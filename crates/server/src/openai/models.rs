//! `GET /v1/models` and what loads, unloads and fetches them.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use axum::body::{Body, Bytes};
use axum::extract::{FromRequestParts, Path, Request, State};
use axum::http::request::Parts;
use axum::http::{HeaderMap, Response, StatusCode, header};
use futures_util::stream;
use serde_json::{Value, json};
use tokio::sync::watch;

use crate::engine::Sampling;
use crate::error::{ApiError, Shape, json_response};
use crate::models::{Known, LoadState, Progress, Stage, Standing, load_api_error, not_found};
use crate::router::{has_ended, openai_answer};
use crate::sse::event_stream;
use crate::state::App;

pub(crate) async fn list(State(app): State<App>) -> Response<Body> {
    let all = app.registry.list();
    let data: Vec<Value> = all.iter().map(|(known, standing)| entry(&app, known, standing)).collect();
    let device = app.registry.loader().device();
    let memory = json!({
        "total_bytes": device.total_bytes, "used_bytes": app.registry.used_bytes(), "device": device.name,
    });
    json_response(StatusCode::OK, &json!({"object": "list", "data": data, "memory": memory}))
}

pub(crate) async fn one(State(app): State<App>, Id(id): Id) -> Response<Body> {
    openai_answer(
        find(&app, &id).map(|(known, standing)| json_response(StatusCode::OK, &entry(&app, &known, &standing))),
    )
}

/// A model's id in the path.
pub(crate) struct Id(String);

impl FromRequestParts<App> for Id {
    type Rejection = Response<Body>;

    async fn from_request_parts(parts: &mut Parts, app: &App) -> Result<Id, Response<Body>> {
        let read = Path::<String>::from_request_parts(parts, app).await;
        // Bytes that are no text name no model.
        let refusal = |_| ApiError::not_found("model_not_found", "the path is not UTF-8").response(Shape::OpenAi);
        read.map(|Path(id)| Id(id)).map_err(refusal)
    }
}

fn find(app: &App, id: &str) -> Result<(Known, Standing), ApiError> {
    let all = app.registry.list();
    match all.iter().find(|(known, _)| known.id == id) {
        Some(found) => Ok(found.clone()),
        None => Err(not_found(id, &all.into_iter().map(|(known, _)| known).collect::<Vec<_>>())),
    }
}

fn entry(app: &App, known: &Known, standing: &Standing) -> Value {
    let state = match standing {
        Standing::Loaded(_) => "loaded",
        Standing::Loading(_) => "loading",
        Standing::Installed => "downloaded",
        Standing::Available => "available",
        Standing::Failed(_) => "failed",
    };
    let total = app.registry.loader().device().total_bytes;
    let memory = known.memory_bytes.or(known.size_bytes);
    let mut object = json!({
        "id": known.id, "object": "model", "created": known.created_unix.unwrap_or(0),
        "owned_by": app.config.identity.owner(),
        "name": known.name, "state": state, "size_bytes": known.size_bytes, "memory_bytes": memory,
        "quantization": known.quantization, "context_length": known.context_tokens,
        "max_model_len": known.context_tokens,
        "fits": total.zip(memory).map(|(total, needed)| needed <= total),
    });
    if let Standing::Failed(error) = standing {
        object["error"] = error.message.as_str().into();
    }
    if let Standing::Loading(progress) = standing {
        object["progress"] = progress_json(progress);
    }
    if let Standing::Loaded(model) = standing {
        let loaded = &model.loaded;
        object["context_length"] = loaded.context_tokens.into();
        object["max_model_len"] = loaded.context_tokens.into();
        object["memory_bytes"] = loaded.memory_bytes.into();
        let can = loaded.template.as_ref().map(|template| template.capabilities());
        object["chat"] = can.is_ok().into();
        object["reasoning"] = can.as_ref().is_ok_and(|can| can.thinking_switch.is_some()).into();
        object["thinks"] = model.dialect.thinking.is_some().into();
        object["tools"] = (model.dialect.tools != crate::parse::ToolFormat::None).into();
        object["default_sampling"] = sampling(&loaded.sampling);
    }
    object
}

fn sampling(sampling: &Sampling) -> Value {
    // A sampler's f32 in its own digits, not in those of the next f64.
    let short = |x: f32| x.to_string().parse::<f64>().unwrap_or(f64::from(x));
    json!({
        "temperature": short(sampling.temperature), "top_k": sampling.top_k, "top_p": short(sampling.top_p),
        "min_p": short(sampling.min_p), "repetition_penalty": short(sampling.repetition_penalty),
        "presence_penalty": short(sampling.presence_penalty), "frequency_penalty": short(sampling.frequency_penalty),
    })
}

/// Loads a model that is here, fetching nothing.
pub(crate) async fn load(State(app): State<App>, Id(id): Id, request: Request) -> Response<Body> {
    let begun = find(&app, &id).and_then(|(known, standing)| match standing {
        Standing::Available => {
            let message = format!("the model {id:?} is not on this machine; fetch it with POST /v1/models/{id}/pull");
            Err(ApiError::not_found("model_not_found", message).about("model"))
        }
        _ => Ok(app.registry.start_load(&known.id)),
    });
    match begun {
        Err(error) => error.response(Shape::OpenAi),
        Ok(states) => follow(states, request.headers(), &id, None).await,
    }
}

/// Takes a model out; streams that use it end first.
pub(crate) async fn unload(State(app): State<App>, Id(id): Id) -> Response<Body> {
    openai_answer(find(&app, &id).map(|_| {
        let unloaded = app.registry.unload(&id);
        let n_streams = unloaded.map_or(0, |unloaded| unloaded.n_streams);
        let body =
            json!({"id": id, "object": "model.unload", "was_loaded": unloaded.is_some(), "running_streams": n_streams});
        json_response(StatusCode::OK, &body)
    }))
}

/// Fetches a model's file. The download ends with the stream that follows it, and can be taken up again.
pub(crate) async fn pull(State(app): State<App>, Id(id): Id, request: Request) -> Response<Body> {
    let (known, standing) = match find(&app, &id) {
        Ok(found) => found,
        Err(error) => return error.response(Shape::OpenAi),
    };
    if !matches!(standing, Standing::Available | Standing::Failed(_)) || known.is_installed {
        return follow(watch::channel(LoadState::Ready).1, request.headers(), &id, None).await;
    }
    let first = Progress {
        stage: Stage::Download,
        done_bytes: 0,
        total_bytes: known.size_bytes.unwrap_or(0),
        message: format!("fetching {id}"),
    };
    let (sender, states) = watch::channel(LoadState::Running(first));
    let cancel = Arc::new(AtomicBool::new(false));
    let (loader, name, flag) = (Arc::clone(app.registry.loader()), id.clone(), Arc::clone(&cancel));
    tokio::task::spawn_blocking(move || {
        let result = loader.pull(&name, &flag, &mut |progress| {
            sender.send_replace(LoadState::Running(progress));
        });
        sender.send_replace(result.map_or_else(LoadState::Failed, |()| LoadState::Ready));
    });
    follow(states, request.headers(), &id, Some(Cancel(cancel))).await
}

/// Ends a download when nobody follows it any more.
struct Cancel(Arc<AtomicBool>);

impl Drop for Cancel {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// Tells how a load goes: as events if the client wants these, or at its end.
async fn follow(
    mut states: watch::Receiver<LoadState>,
    headers: &HeaderMap,
    id: &str,
    cancel: Option<Cancel>,
) -> Response<Body> {
    let accepts = headers.get(header::ACCEPT).and_then(|value| value.to_str().ok()).unwrap_or_default();
    if !accepts.contains("text/event-stream") {
        let ended = states.wait_for(has_ended).await.map(|state| state.clone());
        drop(cancel);
        return match ended {
            Ok(LoadState::Ready) => {
                json_response(StatusCode::OK, &json!({"id": id, "object": "model.load", "stage": "ready"}))
            }
            Ok(LoadState::Failed(error)) => load_api_error(&error).response(Shape::OpenAi),
            Ok(LoadState::Running(_)) | Err(_) => stopped().response(Shape::OpenAi),
        };
    }
    states.mark_changed();
    let events = stream::unfold((states, cancel, false), |(mut states, cancel, is_over)| async move {
        if is_over {
            return None;
        }
        let event = match states.changed().await {
            Ok(()) => states.borrow_and_update().clone(),
            Err(_) => return None,
        };
        let line = format!("data: {}\n\n", state_json(&event));
        Some((Ok::<_, std::convert::Infallible>(Bytes::from(line)), (states, cancel, has_ended(&event))))
    });
    event_stream(Body::from_stream(events))
}

fn stopped() -> ApiError {
    ApiError::new(StatusCode::INTERNAL_SERVER_ERROR, "load_stopped", "the load stopped unexpectedly; the log says more")
}

fn state_json(state: &LoadState) -> Value {
    match state {
        LoadState::Running(progress) => progress_json(progress),
        LoadState::Ready => json!({"stage": "ready", "message": "ready"}),
        LoadState::Failed(error) => json!({"stage": "error", "message": error.message}),
    }
}

fn progress_json(progress: &Progress) -> Value {
    let stage = match progress.stage {
        Stage::Download => "download",
        Stage::Load => "load",
    };
    json!({"stage": stage, "done_bytes": progress.done_bytes, "total_bytes": progress.total_bytes, "message": progress.message})
}
