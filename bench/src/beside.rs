//! What sysmcp and linux-mcp-server say about one host with known faults, in one run.
//!
//! Each is asked over MCP on stdio, with its defaults, by the tool of it that comes closest to the
//! question. The truth is known apart from both.

mod load;
mod server;

use crate::{Programs, table};
use anyhow::{Result, ensure};
use load::{Load, Truth};
use scenarios::{client::Client, without_settings::without_settings};
use serde_json::{Value, json};
use server::Server;
use std::{path::Path, process::Command, thread::sleep, time::Duration};

/// A question: the truth, and what each said.
struct Question {
    question: &'static str,
    truth: String,
    peer: String,
    ours: String,
}

/// Makes the host faulty, asks both, and writes the page.
pub fn compare(programs: &Programs, peer: &Path) -> Result<String> {
    let folder = tempfile::tempdir()?;
    let load = Load::start()?;
    let theirs = Client::start_any(Command::new(peer))?;
    let mut theirs = Server::start(theirs);
    let mut command = without_settings(&programs.sysmcp);
    command.args(["--target", "local", "--audit-log"]).arg(folder.path().join("audit.jsonl"));
    command.arg("--agents").arg(&programs.agents);
    let mut ours = Server::start(Client::start(command)?);
    // The busy program has been idle for most of its life by then.
    sleep(load::IDLE + Duration::from_secs(3));
    let before = Truth::read(&load)?;
    let answers = Answers::ask(&mut theirs, &mut ours, &load)?;
    let truth = Truth::read(&load)?.since(&before);
    ensure!(
        truth.throttled > 0 && truth.busy_process_pct > 50.0,
        "the faults do not show: the limited program was stopped in {} of {} periods, and the busy program had \
         {:.0} % of a processor; where the machine is busy with other things, run it again",
        truth.throttled,
        truth.periods,
        truth.busy_process_pct
    );
    let questions = answers.questions(&load, &truth)?;
    // Where the project lies is nobody's business.
    let root = programs.agents.ancestors().nth(2).unwrap_or(&programs.agents);
    Ok(page(&questions, &theirs, &ours)?.replace(&root.display().to_string(), ""))
}

/// Everything that was answered.
struct Answers {
    cpu: Value,
    processes: String,
    process: String,
    files: Files,
    snapshot: Value,
    list: Value,
    inspect: Value,
}

/// Files that linux-mcp-server was asked for, where it has no tool for the question.
struct Files {
    throttled: String,
    disks: String,
    pressure: String,
    channel: String,
}

impl Answers {
    fn ask(theirs: &mut Server, ours: &mut Server, load: &Load) -> Result<Self> {
        let host = json!({"host": "localhost"});
        let limited = load.limited.pid();
        let mut file =
            |path: &str| theirs.text("read_file", &json!({"host": "localhost", "path": path}));
        let files = Files {
            throttled: file(&load.cpu_stat()?)?,
            disks: file("/proc/diskstats")?,
            pressure: file("/proc/pressure/io")?,
            channel: file(&format!("/proc/{}/wchan", load.deaf.pid()))?,
        };
        Ok(Self {
            files,
            cpu: theirs.structured("get_cpu_information", &host)?,
            processes: theirs.text("list_processes", &host)?,
            process: theirs
                .text("get_process_info", &json!({"host": "localhost", "pid": limited}))?,
            snapshot: ours.structured("host_snapshot", &json!({}))?,
            list: ours.structured("process_list", &json!({}))?,
            inspect: ours.structured("process_inspect", &json!({"pid": limited}))?,
        })
    }

    fn questions(&self, load: &Load, truth: &Truth) -> Result<Vec<Question>> {
        let mut questions = self.about_processors(load, truth)?;
        questions.extend(self.about_waiting(load, truth));
        Ok(questions)
    }

    /// Fields of the snapshot's part about processors.
    fn cpu(&self, names: &[&str]) -> Value {
        let pick =
            |name: &&str| ((*name).to_owned(), part(&self.snapshot, &format!("/cpu/{name}")));
        Value::Object(names.iter().map(pick).collect())
    }

    fn about_processors(&self, load: &Load, truth: &Truth) -> Result<Vec<Question>> {
        let busy = load.busy.pid();
        let cores = |name: &str| (name.to_owned(), part(&self.cpu, &format!("/{name}")));
        let cores = [cores("logical_cores"), cores("physical_cores")];
        let throttling = json!({
            "class": part(&self.inspect, "/class"),
            "throttling": part(&self.inspect, "/cgroup/throttling"),
            "cpu_quota_cores": part(&self.inspect, "/cgroup/cpu_quota_cores"),
        });
        Ok(vec![
            Question {
                question: "How busy are the processors now?",
                truth: format!("{:.0} %, by `/proc/stat` over all the questions", truth.busy_pct),
                peer: said("get_cpu_information", &part(&self.cpu, "/cpu_line")),
                ours: said("host_snapshot", &self.cpu(&["user_pct", "system_pct", "iowait_pct"])),
            },
            Question {
                question: "Which process uses them now?",
                truth: format!(
                    "pid {busy}: idle for its first {} s, and since then {:.0} % of a processor, by \
                     its own account in `/proc`",
                    load::IDLE.as_secs(),
                    truth.busy_process_pct
                ),
                peer: said("list_processes", &self.line_of(busy)),
                ours: said("process_list", &self.row_of(busy)),
            },
            Question {
                question: "How many sockets, cores, threads?",
                truth: load::topology()?,
                peer: said("get_cpu_information", &Value::Object(cores.into_iter().collect())),
                ours: said("host_snapshot", &self.cpu(&["sockets", "cores", "online"])),
            },
            Question {
                question: "Does its quota stop a program?",
                truth: format!(
                    "yes, in {} of {} periods, by `cpu.stat` over all the questions",
                    truth.throttled, truth.periods
                ),
                peer: format!(
                    "{}<br>{}",
                    said("get_process_info", &load::line(&self.process, load.limited.pid())),
                    said("read_file", &json!(self.files.throttled.trim()))
                ),
                ours: said("process_inspect", &throttling),
            },
        ])
    }

    fn about_waiting(&self, load: &Load, truth: &Truth) -> Vec<Question> {
        let deaf = load.deaf.pid();
        vec![
            Question {
                question: "How long does a write to the disk take?",
                truth: format!(
                    "{:.2} ms for each that is waited for, by `dd oflag=dsync`; {:.2} ms for each \
                     request, by the kernel's counters over all the questions",
                    truth.dsync_ms, truth.write_ms
                ),
                peer: said("read_file", &load::disk_line(&self.files.disks)),
                ours: said("host_snapshot", &self.busiest_disk()),
            },
            Question {
                question: "For how much of the time is storage waited for?",
                truth: format!(
                    "some task for {:.0} %, by `/proc/pressure/io` over all the questions",
                    truth.io_some_pct
                ),
                peer: said("read_file", &json!(self.files.pressure.trim())),
                ours: said("host_snapshot", &part(&self.snapshot, "/pressure")),
            },
            Question {
                question: "Which task is deaf to signals, and in what?",
                truth: format!("pid {}, waiting as after `vfork`", deaf),
                peer: format!(
                    "{}<br>{}",
                    said("list_processes", &self.line_of(deaf)),
                    said("read_file", &json!(self.files.channel))
                ),
                ours: said("host_snapshot", &part(&self.snapshot, "/blocked")),
            },
        ]
    }

    /// The line of a process in the other's list, and where it stands.
    fn line_of(&self, pid: u32) -> Value {
        let lines = self.processes.lines().skip_while(|line| !line.starts_with("---")).skip(1);
        let is_its = |line: &str| line.split_whitespace().next() == Some(&pid.to_string());
        match lines.enumerate().find(|(_, line)| is_its(line)) {
            Some((index, line)) => json!(format!("place {}: {}", index + 1, line.trim())),
            None => json!("it is not listed"),
        }
    }

    fn row_of(&self, pid: u32) -> Value {
        let rows = self.list.pointer("/processes").and_then(Value::as_array);
        let found = rows.and_then(|rows| {
            rows.iter().enumerate().find(|(_, row)| row.get("pid") == Some(&json!(pid)))
        });
        let Some((index, row)) = found else { return json!("it is not listed") };
        let part = |name: &str| row.get(name).cloned().unwrap_or_default();
        json!(format!(
            "place {}: pid {pid}, cpu_pct {}, run_delay_pct {}",
            index + 1,
            part("cpu_pct"),
            part("run_delay_pct")
        ))
    }

    fn busiest_disk(&self) -> Value {
        let disks = self.snapshot.pointer("/disks").and_then(Value::as_array);
        disks.and_then(|disks| disks.first()).cloned().unwrap_or_default()
    }
}

fn part(of: &Value, pointer: &str) -> Value {
    of.pointer(pointer).cloned().unwrap_or_default()
}

/// What a tool said, as a cell.
fn said(tool: &str, what: &Value) -> String {
    const MOST: usize = 300;
    let text = match what {
        Value::String(text) => text.clone(),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::Array(_) | Value::Object(_) => {
            what.to_string()
        }
    };
    let mut words = text.split_whitespace().collect::<Vec<_>>().join(" ").replace('`', "'");
    if words.len() > MOST {
        words.truncate(words.floor_char_boundary(MOST));
        words.push('…');
    }
    format!("{tool}: `{}`", words.replace('|', "\\|"))
}

fn page(questions: &[Question], theirs: &Server, ours: &Server) -> Result<String> {
    let heading = table::heading("Beside linux-mcp-server", "cargo xtask compare")?;
    let mut text = heading;
    text.push_str(&format!(
        "\n{} {} and {} {} were asked in the same minute about the same host, each over MCP on stdio, \
         with its defaults and without SSH. Where linux-mcp-server has no tool for a question, it was \
         asked for the kernel's file, which it reads once. It has more tools for performance where \
         Performance Co-Pilot is installed on the host, which it was not here. What each said is \
         quoted, and cut where it is long.\n",
        theirs.name, theirs.version, ours.name, ours.version
    ));
    let rows: Vec<Vec<String>> = questions
        .iter()
        .map(|it| {
            let cells = [it.question, &it.truth, &it.peer, &it.ours];
            cells.map(str::to_owned).to_vec()
        })
        .collect();
    let headings = ["question", "truth", &theirs.name, &ours.name];
    text.push_str(&table::section(
        "What was said",
        "The host had a program that became busy a moment ago, a program with a quota of a fifth of a \
         processor, a writer that waits for each write, and a task that is deaf to signals.",
        &headings,
        &rows,
    ));
    let calls = theirs.rows().chain(ours.rows()).collect::<Vec<_>>();
    text.push_str(&table::section(
        "What it took",
        "Bytes of the result as it goes to the client. `host_snapshot`, `process_list` and \
         `process_inspect` measure for a second; the first of them also starts the agent.",
        &["server", "tool", "bytes", "seconds"],
        &calls,
    ));
    Ok(text)
}
