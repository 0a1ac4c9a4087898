//! The front door for AI agents: MCP over stdio, in both eras of the protocol.
//!
//! Thin: it lists the tools, hands calls to the gate, and turns what comes back into what a client
//! understands. Around each call stands what the library leaves to us: a panic becomes an error
//! instead of silence, a withdrawn call is dropped, progress is passed on.

mod input;
mod instructions;
mod malformed;

pub use input::Input;

use crate::{
    gate::{Call, Gate, GateError, Rendered},
    reporter::{Reporter, Stage},
    targets::Targets,
    tools::Entry,
};
use futures::FutureExt as _;
use malformed::Malformed;
use rmcp::{
    ErrorData, RoleServer, ServerHandler,
    model::{
        CacheScope, CallToolRequestMethod, CallToolRequestParams, CallToolResponse, CallToolResult,
        ConstString as _, ContentBlock, CustomRequest, CustomResult, ErrorCode, Implementation,
        ListToolsResult, MetaObject, PaginatedRequestParams, ProgressNotificationParam,
        ProgressToken, ServerCapabilities, ServerConfig, Tool, ToolAnnotations,
    },
    service::{Peer, RequestContext},
};
use serde_json::Value;
use std::{
    panic::AssertUnwindSafe,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::{Duration, Instant},
};
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;

/// Serves the gate's tools.
#[derive(Clone)]
pub struct Server {
    gate: Arc<Gate>,
    tools: Arc<Vec<Tool>>,
    instructions: Arc<str>,
    /// Set when the client has closed its side.
    closed: CancellationToken,
}

/// How long a client may keep the list of tools: it is fixed at the start.
const LIST_TTL_MS: u64 = 3_600_000;

/// Pause between two progress messages of one call.
const PROGRESS_PAUSE: Duration = Duration::from_millis(200);

/// Where an error's code is put for programs.
const ERROR_KEY: &str = "io.github.sysmcp/error";

impl Server {
    /// Offers what the gate offers, until the client closes its side.
    pub fn new(gate: Arc<Gate>, closed: CancellationToken) -> Self {
        let tools =
            gate.selection().entries().iter().map(|entry| tool(entry, gate.targets())).collect();
        let instructions = instructions::for_tools(gate.selection(), gate.targets());
        Self { gate, tools: Arc::new(tools), instructions: instructions.into(), closed }
    }

    /// One call, from arguments to result.
    async fn answer(
        &self,
        call: Call,
        progress: Option<Told>,
    ) -> Result<CallToolResult, ErrorData> {
        match self.gate.call(call, &progress).await {
            Ok(rendered) => Ok(success(rendered)),
            // A tool that is not offered is an error of the protocol, not of a tool.
            Err(error @ GateError::UnknownTool { .. }) => {
                Err(ErrorData::invalid_params(error.text(), None))
            }
            Err(error) => Ok(failure(&error)),
        }
    }

    /// Refuses a call that cannot be read. One that names a tool is written down.
    fn refuse(&self, parameters: Option<&Value>) -> ErrorData {
        let malformed = Malformed::of(parameters);
        let given = |name| parameters.and_then(|parameters| parameters.get(name));
        if let Some(tool) = given("name").and_then(Value::as_str) {
            let arguments = given("arguments").unwrap_or(&Value::Null);
            if let Err(error) = self.gate.refuse(tool, arguments, &malformed.to_string()) {
                return ErrorData::internal_error(GateError::from(error).text(), None);
            }
        }
        ErrorData::invalid_params(malformed.to_string(), None)
    }
}

fn tool(entry: &Entry, targets: &Targets) -> Tool {
    // All four are written out: what is left out counts as the worst case.
    let annotations = ToolAnnotations::with_title(entry.title)
        .read_only(true)
        .destructive(false)
        .idempotent(true)
        .open_world(true);
    let input = targets.in_schema(entry.input_schema());
    Tool::new(entry.name(), entry.description, Arc::new(input))
        .with_title(entry.title)
        .with_raw_output_schema(Arc::new(entry.output_schema()))
        .with_annotations(annotations)
}

/// The structured result, and the same as text: some clients show a model only one of them.
fn success(rendered: Rendered) -> CallToolResult {
    let mut result = CallToolResult::success(vec![ContentBlock::text(rendered.text)]);
    result.structured_content = Some(Value::Object(rendered.object));
    result
}

/// An error is text for the model; never structured content, which would have to fit the output
/// schema.
fn failure(error: &GateError) -> CallToolResult {
    let mut result = CallToolResult::error(vec![ContentBlock::text(error.text())]);
    let mut meta = MetaObject::new();
    let code = serde_json::json!({
        "exit_code": error.exit_code(),
        "retryable": error.is_transient(),
    });
    meta.0.insert(ERROR_KEY.to_owned(), code);
    result.meta = Some(meta);
    result
}

impl ServerHandler for Server {
    fn get_info(&self) -> ServerConfig {
        let server = Implementation::new("sysmcp", env!("CARGO_PKG_VERSION"));
        ServerConfig::new(ServerCapabilities::builder().enable_tools().build())
            .with_server_info(server)
            .with_instructions(self.instructions.to_string())
    }

    fn get_tool(&self, name: &str) -> Option<Tool> {
        self.tools.iter().find(|tool| tool.name == name).cloned()
    }

    async fn list_tools(
        &self,
        _: Option<PaginatedRequestParams>,
        _: RequestContext<RoleServer>,
    ) -> Result<ListToolsResult, ErrorData> {
        Ok(ListToolsResult::with_all_items(self.tools.to_vec())
            .with_ttl_ms(LIST_TTL_MS)
            .with_cache_scope(CacheScope::Private))
    }

    async fn call_tool(
        &self,
        request: CallToolRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<CallToolResponse, ErrorData> {
        let progress =
            context.meta.get_progress_token().map(|token| Told::to(context.peer.clone(), token));
        let call = Call {
            tool: request.name.into_owned(),
            arguments: request.arguments.unwrap_or_default(),
        };
        let answering = AssertUnwindSafe(self.answer(call, progress)).catch_unwind();
        tokio::select! {
            biased;
            // Dropping the call cancels it on the target. Nothing more is sent for it.
            () = context.ct.cancelled() => Ok(CallToolResult::error(Vec::new()).into()),
            // Nobody is there any more to read an answer.
            () = self.closed.cancelled() => Ok(CallToolResult::error(Vec::new()).into()),
            answered = answering => match answered {
                Err(_) => Err(ErrorData::internal_error("a defect in sysmcp ended this call", None)),
                Ok(answer) => answer.map(CallToolResponse::from),
            },
        }
    }

    async fn on_custom_request(
        &self,
        request: CustomRequest,
        _: RequestContext<RoleServer>,
    ) -> Result<CustomResult, ErrorData> {
        if request.method == CallToolRequestMethod::VALUE {
            return Err(self.refuse(request.params.as_ref()));
        }
        Err(ErrorData::new(ErrorCode::METHOD_NOT_FOUND, request.method, None))
    }
}

/// Passes stages on to a client that asked for progress.
///
/// The number is the time since the call began, in milliseconds: it grows strictly, whatever the
/// stages are.
struct Told {
    messages: mpsc::Sender<(f64, String)>,
    started: Instant,
    last_ms: AtomicU64,
}

impl Told {
    fn to(peer: Peer<RoleServer>, token: ProgressToken) -> Self {
        let (messages, mut queue) = mpsc::channel::<(f64, String)>(16);
        tokio::spawn(async move {
            while let Some((progress, message)) = queue.recv().await {
                let parameters =
                    ProgressNotificationParam::new(token.clone(), progress).with_message(message);
                if peer.notify_progress(parameters).await.is_err() {
                    return;
                }
            }
        });
        Self { messages, started: Instant::now(), last_ms: AtomicU64::new(0) }
    }
}

impl Reporter for Told {
    fn stage(&self, stage: &Stage) {
        let now_ms = u64::try_from(self.started.elapsed().as_millis()).unwrap_or(u64::MAX) + 1;
        let last_ms = self.last_ms.load(Ordering::Relaxed);
        let pause_ms = u64::try_from(PROGRESS_PAUSE.as_millis()).unwrap_or_default();
        let is_due = last_ms == 0 || now_ms.saturating_sub(last_ms) >= pause_ms;
        let is_news = !matches!(stage, Stage::Sending(_) | Stage::Measuring(_));
        if now_ms > last_ms && (is_due || is_news) {
            self.last_ms.store(now_ms, Ordering::Relaxed);
            // A client that is too slow for progress does without.
            let _ = self.messages.try_send((now_ms as f64, stage.to_string()));
        }
    }
}
