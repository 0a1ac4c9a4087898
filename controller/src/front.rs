//! What each command does, from the settings to the exit code.

mod export;
mod parameters;
mod several;
mod signals;
mod sweep;

use controller::{
    audit::{chain, replay},
    capture::Keeper,
    cli::{AuditCommand, Cli, Command, Common},
    config::{self, Config, ConfigError, Environment},
    exit,
    gate::{Call, End, Gate, GateError, Rendered},
    mcp::{Input, Server},
    reporter::{Reporter, Silent, Stderr},
    screen,
    session::Stopped,
    side_door::Door,
    targets::{PARAMETER, Targets},
    tools::{self, Selection},
    transport::Prompts,
};
use protocol::{
    InstrumentId, Item, host_text,
    sweep::Order,
    view::text::{self, Style},
};
use rmcp::{ServiceExt as _, service::ServerInitializeError};
use serde_json::{Map, Value, json};
use signals::Signals;
use std::{
    convert::Infallible,
    io::{self, Write as _},
    path::{Path, PathBuf},
    sync::{Arc, Mutex, PoisonError},
    time::{Duration, SystemTime},
};
use tokio_util::sync::CancellationToken;

/// Runs a command. Returns the exit code.
pub async fn run(cli: Cli) -> u8 {
    let environment = std::env::vars_os()
        .filter_map(|(name, value)| Some((name.into_string().ok()?, value.into_string().ok()?)))
        .collect();
    for warning in config::unknown_variables(&environment) {
        complain(&warning, exit::OK);
    }
    match run_in(cli, &environment).await {
        Ok(code) | Err(code) => code,
    }
}

async fn run_in(cli: Cli, environment: &Environment) -> Result<u8, u8> {
    let Cli { common, command } = cli;
    let is_root = config::is_root();
    let said = || (common.settings(), common.config.clone());
    let config = || {
        let (flags, file) = said();
        config::load(flags, file, environment, is_root).map_err(unusable)
    };
    // A log can be looked at whatever else is wrong with the settings.
    let audit_log = || {
        let (flags, file) = said();
        config::audit_log(flags, file, environment, is_root).map_err(unusable)
    };
    Ok(match command {
        Command::Serve => serve(&config()?, &common, environment).await,
        Command::Call { tool, params, param_file, json, export, output, force, reversed } => {
            let arguments = parameters::read(&params, &param_file)
                .map_err(|error| complain(&error, exit::USAGE))?;
            let look = export::Look { is_reversed: reversed, baseline: None };
            let export = export.zip(output).map(|(format, output)| export::ToFile {
                format,
                look,
                output,
                force,
            });
            call(&config()?, &common, Call { tool, arguments }, json, export).await
        }
        Command::Probe { json, all } => {
            let arguments = Map::from_iter([("all".to_owned(), all.into())]);
            let tool = InstrumentId::Capabilities.name().to_owned();
            call(&config()?, &common, Call { tool, arguments }, json, None).await
        }
        Command::Capture { folder, why, window_ms, max_bytes } => {
            let wanted = Wanted { folder, why, window_ms, max_bytes };
            capture(config()?, &common, &wanted).await
        }
        Command::Export { artifact, format, output, force, reversed, baseline } => {
            let look = export::Look { is_reversed: reversed, baseline };
            let wanted = export::Wanted { artifact, format, look, output, force };
            export::export(&common, environment, wanted).await
        }
        Command::Sweep { dry_run, live, json } => {
            sweep::sweep(&config()?, &common, Order { dry_run, live }, json).await
        }
        Command::Tools { json, all } => {
            let config = config()?;
            list_tools(&config.selection, &config.targets, json, all)
        }
        Command::Audit { command: AuditCommand::Verify { file } } => {
            let path = file.map_or_else(audit_log, Ok)?;
            verify(&path, &read_log(&path)?)
        }
        Command::Audit { command: AuditCommand::Script { file } } => {
            print(&replay::script(&read_log(&file.map_or_else(audit_log, Ok)?)?))
        }
    })
}

/// Says what is wrong with the settings. Returns the exit code.
fn unusable(error: ConfigError) -> u8 {
    let is_target = matches!(error, ConfigError::Targets(_));
    complain(&error.to_string(), if is_target { exit::BAD_TARGET } else { exit::USAGE })
}

/// Says on stderr what is wrong, and returns the exit code.
pub fn complain(error: &str, code: u8) -> u8 {
    // A path, a target or a variable may hold anything. A closed stderr must not end anything.
    let _ = writeln!(std::io::stderr(), "sysmcp: {}", host_text::printable(error));
    code
}

/// Prints to stdout. Returns the exit code.
fn print(text: &str) -> u8 {
    let mut stdout = std::io::stdout().lock();
    printed(stdout.write_all(text.as_bytes()).and_then(|()| stdout.flush()))
}

/// The exit code for what became of printing. A reader that went away has what it wanted.
pub fn printed(result: io::Result<()>) -> u8 {
    match result {
        Ok(()) => exit::OK,
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => exit::OK,
        Err(error) => complain(&format!("could not write to stdout: {error}"), exit::NO_OUTPUT),
    }
}

/// In which a signal that was sent to several processes has reached all of them.
const MOMENT: Duration = Duration::from_millis(50);

async fn call(
    config: &Config,
    common: &Common,
    call: Call,
    as_json: bool,
    export: Option<export::ToFile>,
) -> u8 {
    if config.targets.only().is_none() && !call.arguments.contains_key(PARAMETER) {
        if export.is_some() {
            let count = config.targets.count();
            let error = format!("there are {count} targets: a file holds one recording; name one");
            return complain(&error, exit::USAGE);
        }
        return several::ask_each(config, common, &call, as_json).await;
    }
    let file = match export.map(export::ToFile::checked).transpose() {
        Ok(file) => file,
        Err(code) => return code,
    };
    let show = async |gate: &Gate, rendered: &Rendered| {
        let code = print(&shown(rendered, as_json));
        match file {
            Some(file) if code == exit::OK => export::of_answer(gate, rendered, file, common).await,
            Some(_) | None => code,
        }
    };
    ask(config, common, call, &mut |_| {}, show).await
}

/// What is to be taken along, and where to.
struct Wanted {
    folder: PathBuf,
    why: String,
    window_ms: u32,
    max_bytes: u32,
}

/// Takes a machine's files along.
async fn capture(mut config: Config, common: &Common, wanted: &Wanted) -> u8 {
    let Wanted { folder, why, window_ms, max_bytes } = wanted;
    if config.targets.only().is_none() {
        let count = config.targets.count();
        let error = format!("there are {count} targets: a folder holds one machine; name one");
        return complain(&error, exit::USAGE);
    }
    let keeper = match Keeper::begin(folder, usize::try_from(*max_bytes).unwrap_or(usize::MAX)) {
        Ok(keeper) => Mutex::new(Some(keeper)),
        Err(error) => return complain(&error.to_string(), exit::USAGE),
    };
    config.selection = config.selection.and(InstrumentId::Capture);
    let arguments = json!({
        "window_ms": window_ms, "max_bytes": max_bytes, "max_cpu_ms": 30_000,
        "timeout_s": window_ms / 1000 + 60,
    });
    let arguments = arguments.as_object().cloned().unwrap_or_default();
    let call = Call { tool: InstrumentId::Capture.name().to_owned(), arguments };
    let mut keep = |item: &Item| {
        if let (Item::Capture(item), Some(keeper)) = (item, lock(&keeper).as_mut()) {
            keeper.keep(item);
        }
    };
    let show = async |_: &Gate, rendered: &Rendered| {
        let Some(keeper) = lock(&keeper).take() else { return exit::NO_OUTPUT };
        match keeper.finish(&rendered.object, why, SystemTime::now()) {
            Ok(()) => print(&shown(rendered, false)),
            Err(error) => complain(&error.to_string(), exit::NO_OUTPUT),
        }
    };
    ask(&config, common, call, &mut keep, show).await
}

fn lock(keeper: &Mutex<Option<Keeper>>) -> std::sync::MutexGuard<'_, Option<Keeper>> {
    keeper.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Makes one call in a session of its own, and shows what comes of it. Gives the exit code.
async fn ask(
    config: &Config,
    common: &Common,
    call: Call,
    keep: &mut (dyn FnMut(&Item) + Send),
    show: impl AsyncFnOnce(&Gate, &Rendered) -> u8,
) -> u8 {
    let gate = match Gate::new(config, Prompts::here(), true) {
        Ok(gate) => gate,
        Err(error) => return complain(&error.text(), error.exit_code()),
    };
    let stderr = (!common.quiet).then(Stderr::default);
    let reporter: &dyn Reporter = &stderr;
    let mut signals = Signals::new();
    let answering = async {
        let rendered = gate.call_keeping(call, reporter, keep).await?;
        clear(stderr.as_ref());
        Ok::<u8, GateError>(show(&gate, &rendered).await)
    };
    let code = tokio::select! {
        shown = answering => {
            clear(stderr.as_ref());
            match shown {
                Ok(code) => code,
                // A Ctrl-C while ssh asks for a passphrase reaches ssh first: it gives up.
                Err(_) if tokio::time::timeout(MOMENT, signals.any()).await.is_ok() => {
                    complain("interrupted", exit::INTERRUPTED)
                }
                Err(error) => complain(&error.text(), error.exit_code()),
            }
        }
        () = signals.any() => {
            clear(stderr.as_ref());
            complain("interrupted", exit::INTERRUPTED)
        }
    };
    let patience = Patience { signals, is_interrupted: code == exit::INTERRUPTED };
    let stopped = stop(&gate, reporter, stderr.as_ref(), common, patience).await;
    if code == exit::OK { stopped } else { code }
}

fn clear(stderr: Option<&Stderr>) {
    if let Some(stderr) = stderr {
        stderr.clear();
    }
}

/// Ends all sessions and prints their receipts. Returns the exit code for what is left, the worst
/// where there are several.
async fn stop(
    gate: &Gate,
    reporter: &dyn Reporter,
    stderr: Option<&Stderr>,
    common: &Common,
    patience: Patience,
) -> u8 {
    let ends = gate.stop(reporter, patience.until_lost(stderr)).await;
    clear(stderr);
    let is_alone = gate.targets().only().is_some();
    ends.into_iter().map(|end| ended(end, common, is_alone)).max().unwrap_or(exit::OK)
}

/// Says how one session ended. Returns the exit code for what is left there.
fn ended(end: Result<End, GateError>, common: &Common, is_alone: bool) -> u8 {
    let End { stopped, written } = match end {
        Ok(end) => end,
        Err(error) => return complain(&error.text(), error.exit_code()),
    };
    let code = receipt(&stopped, common.quiet);
    if common.timings {
        let whose = if is_alone { String::new() } else { format!("{}: ", stopped.target) };
        for line in stopped.cost_lines() {
            complain(&format!("{whose}{line}"), exit::OK);
        }
    }
    match written {
        Ok(()) => code,
        Err(error) if code == exit::OK => complain(&error.text(), error.exit_code()),
        Err(error) => complain(&error.text(), code),
    }
}

/// How long the user waits for the end of a session.
struct Patience {
    signals: Signals,
    /// Whether it was a signal that began the end.
    is_interrupted: bool,
}

impl Patience {
    /// Returns at the second Ctrl-C. The first, where there was none, only asks for what is being
    /// done already.
    async fn until_lost(mut self, stderr: Option<&Stderr>) {
        if !self.is_interrupted {
            self.signals.interrupt().await;
            clear(stderr);
            complain("stopping the agent; Ctrl-C once more ends without waiting for it", exit::OK);
        }
        self.signals.interrupt().await;
    }
}

fn receipt(stopped: &Stopped, quiet: bool) -> u8 {
    let is_clean = stopped.is_clean();
    if !quiet || !is_clean {
        complain(&stopped.sentence(), exit::OK);
        if let Some(words) = stopped.last_words().filter(|_| stopped.receipt.is_none()) {
            complain(&format!("it said: {words}"), exit::OK);
        }
    }
    match (is_clean, stopped.is_cut_short) {
        (true, _) => exit::OK,
        (false, true) => exit::INTERRUPTED,
        (false, false) => exit::NOT_CLEAN,
    }
}

fn shown(rendered: &Rendered, as_json: bool) -> String {
    if as_json {
        return format!("{}\n", rendered.text);
    }
    let stdout = std::io::stdout();
    let style = if screen::is_steerable(&stdout) {
        Style { color: true, width: screen::width(&stdout) }
    } else {
        Style::PLAIN
    };
    text::answer(&rendered.tables, &rendered.meta, style)
}

/// Speaks MCP until the client goes away.
async fn serve(config: &Config, common: &Common, environment: &Environment) -> u8 {
    // Nobody can be asked: the terminal, if there is one, is the client's.
    let gate = match Gate::new(config, Prompts::Forbidden, false) {
        Ok(gate) => Arc::new(gate),
        Err(error) => return complain(&error.text(), error.exit_code()),
    };
    let closed = CancellationToken::new();
    let (stdin, stdout) = rmcp::transport::io::stdio_pipes();
    let server = Server::new(Arc::clone(&gate), closed.clone());
    let serving = server.serve((Input::new(stdin, closed), stdout));
    let mut signals = Signals::new();
    let (code, is_interrupted) = tokio::select! {
        code = until_closed(serving) => (code, false),
        () = signals.any() => (exit::OK, true),
        never = at_side_door(&gate, environment) => match never {},
    };
    let patience = Patience { signals, is_interrupted };
    let stopped = stop(&gate, &Silent, None, common, patience).await;
    if code == exit::OK { stopped } else { code }
}

/// Answers people who ask for recordings, beside the client.
async fn at_side_door(gate: &Gate, environment: &Environment) -> Infallible {
    match Door::open(&config::servers(environment, config::is_root())).await {
        Ok(door) => door.serve(gate).await,
        Err(error) => {
            // The client is served all the same.
            complain(&format!("`sysmcp export` cannot ask this server: {error}"), exit::OK);
            std::future::pending().await
        }
    }
}

async fn until_closed(
    serving: impl Future<
        Output = Result<
            rmcp::service::RunningService<rmcp::RoleServer, Server>,
            ServerInitializeError,
        >,
    >,
) -> u8 {
    match serving.await {
        Ok(service) => {
            let _ = service.waiting().await;
            exit::OK
        }
        // A client that only asks what the server is and closes.
        Err(ServerInitializeError::ConnectionClosed(_)) => exit::OK,
        Err(error) => complain(&format!("the client does not speak MCP: {error}"), exit::USAGE),
    }
}

fn list_tools(selection: &Selection, targets: &Targets, as_json: bool, all: bool) -> u8 {
    let entries = if all { tools::ALL } else { selection.entries() };
    if as_json {
        let list: Vec<Value> = entries
            .iter()
            .map(|entry| {
                json!({
                    "name": entry.name(), "title": entry.title, "toolset": entry.toolset.name(),
                    "description": entry.description,
                    "inputSchema": targets.in_schema(entry.input_schema()),
                    "outputSchema": entry.output_schema(),
                })
            })
            .collect();
        return print(&format!("{}\n", Value::Array(list)));
    }
    let mut text = String::new();
    for entry in entries {
        let set = entry.toolset.name();
        let mark = if selection.find(entry.name()).is_some() { "" } else { ", not offered" };
        text.push_str(&format!("{} ({set}{mark}): {}\n", entry.name(), entry.title));
        text.push_str(&format!("  {}\n", entry.description));
        let schema = targets.in_schema(entry.input_schema());
        let properties = schema.get("properties").and_then(Value::as_object);
        for (name, property) in properties.into_iter().flatten() {
            let words = property.get("description").and_then(Value::as_str).unwrap_or_default();
            text.push_str(&format!("    {name}: {words}\n"));
        }
    }
    print(&text)
}

fn read_log(path: &Path) -> Result<Vec<u8>, u8> {
    std::fs::read(path).map_err(|error| {
        let shown = path.display();
        complain(&format!("could not read the audit log {shown}: {error}"), exit::USAGE)
    })
}

fn verify(path: &Path, log: &[u8]) -> u8 {
    let path = path.display().to_string();
    let shown = host_text::printable(&path);
    let chain::Verdict { lines, breaks } = chain::verify(log);
    if breaks.is_empty() {
        return print(&format!("{shown}: {lines} lines, each follows from the one before\n"));
    }
    for found in breaks {
        complain(&format!("{shown}: {}: {}", found.place(), found.reason), exit::OK);
    }
    exit::AUDIT_BROKEN
}
