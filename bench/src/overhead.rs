//! Whether an answer's own account of what it cost is right: against the kernel's account of the
//! worker.

use crate::{
    Programs,
    ranking::Crowd,
    session::{PATIENCE, Session},
    table,
};
use anyhow::{Context as _, Result};
use serde_json::{Value, json};

const CALLS: u32 = 20;

pub fn measure(programs: &Programs, processes: usize) -> Result<String> {
    let _crowd = Crowd::gather(processes)?;
    let folder = tempfile::tempdir()?;
    let mut session = Session::start(programs, folder.path())?;
    let arguments = json!({"window_ms": 200});
    let call = |session: &mut Session| -> Result<f64> {
        let result = session.client.call("process_list", &arguments, PATIENCE)?;
        let reported = result.pointer("/structuredContent/meta/overhead/agent_cpu_ms");
        reported.and_then(Value::as_f64).context("the answer states no overhead")
    };
    call(&mut session)?;
    let before = session.cpu_s()?;
    let mut reported = 0.0;
    for _ in 0..CALLS {
        reported += call(&mut session)?;
    }
    let kernel = (session.cpu_s()? - before) * 1e3;
    let rows = vec![
        vec!["what the answers state".to_owned(), format!("{:.1}", reported / f64::from(CALLS))],
        vec!["what the kernel counts".to_owned(), format!("{:.1}", kernel / f64::from(CALLS))],
        vec!["stated ÷ counted".to_owned(), format!("{:.2}", reported / kernel)],
    ];
    Ok(table::section(
        "The answer's own account",
        &format!(
            "{CALLS} calls of process_list with {processes} idle processes, in one session; the \
             kernel's count is of the whole worker process, in CPU ms for each call."
        ),
        &["", "CPU ms"],
        &rows,
    ))
}
