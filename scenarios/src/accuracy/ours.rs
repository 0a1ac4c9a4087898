//! Ours: `perf_record`, asked over MCP, and `perf_report` for all that its recording has.

use super::table::{Name, Shares, Table};
use crate::client::Client;
use anyhow::{Context as _, Result, ensure};
use serde_json::{Value, json};
use std::time::Duration;

/// Rows of an answer.
const ROWS: u32 = 200;

/// What a call may take beside what it measures.
const PATIENCE: Duration = Duration::from_secs(60);

/// Records a process, and reads which functions take its time.
///
/// # Errors
///
/// When there is no answer, or it lacks what is read.
pub fn record(sysmcp: &mut Client, pid: u32, window: Duration, hertz: u32) -> Result<Table> {
    let asked = json!({"pid": pid, "window_ms": window.as_millis(), "hertz": hertz});
    let answer = call(sysmcp, "perf_record", &asked)?;
    let artifact = answer.pointer("/meta/artifact").context("the answer names no recording")?;
    let mut table = Table::default();
    for sort in ["self", "total"] {
        let asked = json!({"artifact": artifact, "sort": sort, "limit": ROWS});
        read(&call(sysmcp, "perf_report", &asked)?, &mut table)?;
    }
    Ok(table)
}

fn call(sysmcp: &mut Client, tool: &str, asked: &Value) -> Result<Value> {
    let result = sysmcp.call(tool, asked, PATIENCE)?;
    let answer = result.get("structuredContent").cloned().unwrap_or_default();
    ensure!(
        answer.is_object() && result.get("isError") != Some(&Value::Bool(true)),
        "{tool} was refused: {result}"
    );
    Ok(answer)
}

/// Reads an answer about functions. One that another answer had is the same again.
fn read(answer: &Value, table: &mut Table) -> Result<()> {
    let of_recording = |pointer: &str| {
        let value = answer.pointer(&format!("/recording{pointer}"));
        value.with_context(|| format!("the answer has no recording{pointer}"))
    };
    let pct = |pointer: &str| {
        of_recording(pointer)?.as_f64().with_context(|| format!("{pointer} is no number"))
    };
    table.samples = of_recording("/samples")?.as_u64().context("samples are no number")?;
    table.complete_pct = pct("/quality/complete_pct")? + pct("/quality/by_frame_pointers_pct")?;
    table.unnamed_pct = pct("/quality/unnamed_pct")?;
    let functions = answer.pointer("/functions").and_then(Value::as_array);
    let mut unnamed = std::collections::BTreeMap::<Name, f64>::new();
    for row in functions.context("the answer has no functions")? {
        let text = |field: &str| row.get(field).and_then(Value::as_str).unwrap_or_default();
        let number = |field: &str| {
            row.get(field).and_then(Value::as_f64).with_context(|| format!("no {field}: {row}"))
        };
        let shares = Shares { own_pct: number("self_pct")?, total_pct: number("total_pct")? };
        let name = match text("kind") {
            "kernel" => Name::kernel(text("name")),
            "unnamed" | "cut" => {
                *unnamed.entry(Name::unnamed(text("module"))).or_default() += shares.own_pct;
                continue;
            }
            _ => Name::user(text("name")),
        };
        table.functions.insert(name, shares);
    }
    for (name, own_pct) in unnamed {
        let shares = Shares { own_pct, total_pct: own_pct };
        let kept = table.functions.entry(name).or_default();
        // The answer that is sorted by these has them all.
        kept.own_pct = kept.own_pct.max(shares.own_pct);
        kept.total_pct = kept.total_pct.max(shares.total_pct);
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn answers_are_read_and_functions_without_a_name_are_one() {
        let row = |name: &str, module: &str, kind: &str, own: f64, total: f64| json!({"name": name, "module": module, "kind": kind, "self_pct": own, "total_pct": total});
        let answer = json!({
            "recording": {"samples": 500, "quality":
                {"complete_pct": 90.0, "by_frame_pointers_pct": 5.0, "unnamed_pct": 30.0}},
            "functions": [
                row("a", "c", "user", 40.0, 60.0),
                row("a", "[kernel]", "kernel", 10.0, 10.0),
                row("fn_1000", "/usr/bin/gzip", "unnamed", 20.0, 70.0),
                row("fn_2000", "/usr/bin/gzip", "unnamed", 10.0, 10.0),
            ],
        });
        let mut table = Table::default();
        read(&answer, &mut table).unwrap();
        read(&answer, &mut table).unwrap();
        assert_eq!((table.samples, table.complete_pct, table.unnamed_pct), (500, 95.0, 30.0));
        let own: Vec<(String, f64)> = table
            .functions
            .iter()
            .map(|(name, shares)| (name.to_string(), shares.own_pct))
            .collect();
        let expected = [("(without a name in gzip)", 30.0), ("a", 40.0), ("a (kernel)", 10.0)];
        let expected = expected.map(|(name, pct)| (name.to_owned(), pct));
        assert_eq!(own, expected);
        for lacking in [json!({}), json!({"functions": []})] {
            assert!(read(&lacking, &mut Table::default()).is_err());
        }
    }
}
