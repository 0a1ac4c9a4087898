//! A server that is asked, and what its answers took.

use anyhow::{Context as _, Result, bail};
use scenarios::client::Client;
use serde_json::Value;
use std::time::{Duration, Instant};

const PATIENCE: Duration = Duration::from_secs(60);

/// A server over MCP on stdio.
pub(super) struct Server {
    client: Client,
    pub(super) name: String,
    pub(super) version: String,
    calls: Vec<Call>,
}

struct Call {
    tool: String,
    bytes: usize,
    took: Duration,
}

impl Server {
    /// One that has shaken hands, and said what it is.
    pub(super) fn start(client: Client) -> Self {
        let said = |name: &str| client.server_info().get(name).and_then(Value::as_str);
        let (name, version) = (said("name").unwrap_or("?"), said("version").unwrap_or("?"));
        let (name, version) = (name.to_owned(), version.to_owned());
        Self { client, name, version, calls: Vec::new() }
    }

    fn ask(&mut self, tool: &str, arguments: &Value) -> Result<Value> {
        let started = Instant::now();
        let result = self.client.call(tool, arguments, PATIENCE)?;
        let took = started.elapsed();
        let bytes = result.to_string().len();
        self.calls.push(Call { tool: tool.to_owned(), bytes, took });
        if result.get("isError").and_then(Value::as_bool) == Some(true) {
            bail!("{} {arguments}: {result}", tool);
        }
        Ok(result)
    }

    /// The text of an answer.
    pub(super) fn text(&mut self, tool: &str, arguments: &Value) -> Result<String> {
        let result = self.ask(tool, arguments)?;
        let text = result.pointer("/content/0/text").and_then(Value::as_str);
        Ok(text.with_context(|| format!("{tool} gave no text"))?.to_owned())
    }

    /// An answer as fields.
    pub(super) fn structured(&mut self, tool: &str, arguments: &Value) -> Result<Value> {
        let result = self.ask(tool, arguments)?;
        let fields = result.get("structuredContent");
        Ok(fields.with_context(|| format!("{tool} gave no fields"))?.clone())
    }

    /// What each call took.
    pub(super) fn rows(&self) -> impl Iterator<Item = Vec<String>> {
        self.calls.iter().map(|call| {
            vec![
                self.name.clone(),
                call.tool.clone(),
                call.bytes.to_string(),
                format!("{:.2}", call.took.as_secs_f64()),
            ]
        })
    }
}
