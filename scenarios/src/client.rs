//! An MCP client on `sysmcp serve`, small enough to misbehave on purpose.

use anyhow::{Context as _, Result, bail};
use serde_json::{Value, json};
use std::{
    cell::RefCell,
    io::{BufRead as _, BufReader, Write as _},
    process::{Child, ChildStdin, Command, ExitStatus, Stdio},
    sync::mpsc::{Receiver, RecvTimeoutError, channel},
    time::{Duration, Instant},
};

/// A client with a server of its own.
#[derive(Debug)]
pub struct Client {
    server: Child,
    stdin: Option<ChildStdin>,
    messages: Receiver<Value>,
    next_id: u64,
    server_info: Value,
}

impl Client {
    /// Starts `sysmcp … serve` and shakes hands.
    ///
    /// # Errors
    ///
    /// When it cannot be started or does not answer.
    pub fn start(mut command: Command) -> Result<Self> {
        command.arg("serve");
        Self::start_any(command)
    }

    /// Starts any server and shakes hands.
    ///
    /// # Errors
    ///
    /// When it cannot be started or does not answer.
    pub fn start_any(command: Command) -> Result<Self> {
        let mut client = Self::spawn(command)?;
        let parameters = json!({
            "protocolVersion": "2025-11-25", "capabilities": {},
            "clientInfo": {"name": "scenario", "version": "1"},
        });
        let said = client.request("initialize", &parameters, Duration::from_secs(30))?;
        client.server_info = said.get("serverInfo").cloned().unwrap_or_default();
        client.notify("notifications/initialized", &json!({}))?;
        Ok(client)
    }

    /// Starts `sysmcp … serve` and says nothing.
    ///
    /// # Errors
    ///
    /// When it cannot be started.
    pub fn start_silent(mut command: Command) -> Result<Self> {
        command.arg("serve");
        Self::spawn(command).context("could not run sysmcp; `cargo xtask test` builds it")
    }

    fn spawn(mut command: Command) -> Result<Self> {
        let mut server = command
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .with_context(|| format!("could not start {command:?}"))?;
        let stdin = server.stdin.take();
        let stdout = server.stdout.take().context("the server has no stdout")?;
        let (sender, messages) = channel();
        std::thread::spawn(move || {
            for line in BufReader::new(stdout).lines().map_while(std::result::Result::ok) {
                let message = serde_json::from_str(&line).unwrap_or(Value::String(line));
                if sender.send(message).is_err() {
                    return;
                }
            }
        });
        Ok(Self { server, stdin, messages, next_id: 1, server_info: Value::Null })
    }

    /// What the server said that it is: its name and version.
    pub const fn server_info(&self) -> &Value {
        &self.server_info
    }

    /// The server's pid.
    pub fn pid(&self) -> u32 {
        self.server.id()
    }

    /// Sends raw bytes.
    ///
    /// # Errors
    ///
    /// When the server has closed its stdin.
    pub fn send_bytes(&mut self, bytes: &[u8]) -> Result<()> {
        let stdin = self.stdin.as_mut().context("stdin was closed")?;
        stdin.write_all(bytes)?;
        stdin.flush()?;
        Ok(())
    }

    fn send(&mut self, message: &Value) -> Result<()> {
        self.send_bytes(format!("{message}\n").as_bytes())
    }

    /// Sends a notification.
    ///
    /// # Errors
    ///
    /// When the server has closed its stdin.
    pub fn notify(&mut self, method: &str, parameters: &Value) -> Result<()> {
        self.send(&json!({"jsonrpc": "2.0", "method": method, "params": parameters}))
    }

    /// Sends a request and does not wait. Returns its id.
    ///
    /// # Errors
    ///
    /// When the server has closed its stdin.
    pub fn ask(&mut self, method: &str, parameters: &Value) -> Result<u64> {
        let id = self.next_id;
        self.next_id += 1;
        self.send(&json!({"jsonrpc": "2.0", "id": id, "method": method, "params": parameters}))?;
        Ok(id)
    }

    /// Sends a request and waits for its result.
    ///
    /// # Errors
    ///
    /// When there is none in time, or the result is an error of the protocol.
    pub fn request(
        &mut self,
        method: &str,
        parameters: &Value,
        patience: Duration,
    ) -> Result<Value> {
        let id = self.ask(method, parameters)?;
        let reply = self.reply(id, patience)?.context("no reply in time")?;
        match reply.get("result") {
            Some(result) => Ok(result.clone()),
            None => bail!("an error instead of a result: {reply}"),
        }
    }

    /// Waits for the reply to a request; `None` when there is none in time.
    ///
    /// # Errors
    ///
    /// When the server has closed its stdout.
    pub fn reply(&mut self, id: u64, patience: Duration) -> Result<Option<Value>> {
        self.wait_for(patience, |message| message.get("id") == Some(&json!(id)))
    }

    /// Waits for a message that is looked for; others are dropped. `None` when the time is up.
    ///
    /// # Errors
    ///
    /// When the server has closed its stdout.
    pub fn wait_for(
        &mut self,
        patience: Duration,
        is_it: impl Fn(&Value) -> bool,
    ) -> Result<Option<Value>> {
        let until = Instant::now() + patience;
        loop {
            match self.messages.recv_timeout(until.saturating_duration_since(Instant::now())) {
                Ok(message) if is_it(&message) => return Ok(Some(message)),
                Ok(_) => {}
                Err(RecvTimeoutError::Timeout) => return Ok(None),
                Err(RecvTimeoutError::Disconnected) => bail!("the server closed its stdout"),
            }
        }
    }

    /// Calls a tool and waits for its result.
    ///
    /// # Errors
    ///
    /// As for [`Client::request`].
    pub fn call(&mut self, tool: &str, arguments: &Value, patience: Duration) -> Result<Value> {
        self.request("tools/call", &json!({"name": tool, "arguments": arguments}), patience)
    }

    /// The same for a call whose progress is wanted: its result, and what was told on the way.
    ///
    /// # Errors
    ///
    /// As for [`Client::request`].
    pub fn call_with_progress(
        &mut self,
        tool: &str,
        arguments: &Value,
        patience: Duration,
    ) -> Result<(Value, Vec<Told>)> {
        let started = Instant::now();
        let id = self.ask(
            "tools/call",
            &json!({"name": tool, "arguments": arguments, "_meta": {"progressToken": "wanted"}}),
        )?;
        let told = RefCell::new(Vec::new());
        let reply = self.wait_for(patience, |message| {
            if message.get("method") == Some(&json!("notifications/progress")) {
                told.borrow_mut().extend(Told::read(message, started.elapsed()));
            }
            message.get("id") == Some(&json!(id))
        })?;
        let told = told.into_inner();
        let reply = reply.with_context(|| format!("no reply in time, but it was told {told:?}"))?;
        let result = reply.get("result").with_context(|| format!("no result: {reply}"))?;
        Ok((result.clone(), told))
    }

    /// Closes the server's stdin, as a client that goes away does.
    pub fn close(&mut self) {
        self.stdin = None;
    }

    /// Waits for the server to end. `None` when it does not in time.
    ///
    /// # Errors
    ///
    /// When it cannot be waited for.
    pub fn ended(&mut self, patience: Duration) -> Result<Option<(ExitStatus, Duration)>> {
        let started = Instant::now();
        loop {
            if let Some(status) = self.server.try_wait()? {
                return Ok(Some((status, started.elapsed())));
            }
            if started.elapsed() > patience {
                return Ok(None);
            }
            std::thread::sleep(Duration::from_millis(1));
        }
    }
}

/// A notice of progress.
#[derive(Clone, Debug, PartialEq)]
pub struct Told {
    /// When it came, since the call was made.
    pub after: Duration,
    /// Its number, which has to grow.
    pub progress: f64,
    /// Its words.
    pub message: String,
}

impl Told {
    fn read(notice: &Value, after: Duration) -> Option<Self> {
        let parameters = notice.get("params")?;
        let progress = parameters.get("progress")?.as_f64()?;
        let message = parameters.get("message")?.as_str()?.to_owned();
        Some(Self { after, progress, message })
    }
}

impl Drop for Client {
    fn drop(&mut self) {
        let _ = self.server.kill();
        let _ = self.server.wait();
    }
}
