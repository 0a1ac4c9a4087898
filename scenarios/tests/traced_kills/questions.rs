//! What is asked when a kill comes: each tool that attaches or stops something, by each of its engines.

use serde_json::{Value, json};

/// What is to be seen from outside while an engine is at work.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sign {
    /// Processes of the session hold programs of BPF that run.
    Bpf,
    /// Threads of the program are traced.
    Traced,
    /// Processes of the session hold events of the kernel's perf.
    Events,
    /// Nothing but the session: it only reads.
    None,
}

/// A question that takes a while.
#[derive(Clone, Copy, Debug)]
pub struct Question {
    pub name: &'static str,
    tool: &'static str,
    /// Its parameters, with PID for the process, and without the window.
    asked: &'static str,
    /// A program that has to be installed.
    pub needs: Option<&'static str>,
    pub sign: Sign,
    /// Longer than any kill is waited for, unless the engine has a limit of its own.
    window_ms: u32,
}

impl Question {
    const fn new(name: &'static str, tool: &'static str, asked: &'static str, sign: Sign) -> Self {
        Self { name, tool, asked, needs: None, sign, window_ms: 30_000 }
    }

    const fn by(self, program: &'static str) -> Self {
        Self { needs: Some(program), ..self }
    }

    const fn within(self, window_ms: u32) -> Self {
        Self { window_ms, ..self }
    }

    /// All of them.
    pub const ALL: &[Self] = &[
        Self::new("process_list", "process_list", "{}", Sign::None),
        Self::new("perf_record", "perf_record", r#"{"pid": PID}"#, Sign::Events),
        Self::new(
            "perf_record, off_cpu",
            "perf_record",
            r#"{"pid": PID, "mode": "off_cpu"}"#,
            Sign::Bpf,
        ),
        Self::new("latency", "latency", r#"{"pid": PID}"#, Sign::Bpf),
        Self::new("syscall_trace, ebpf", TRACE, r#"{"pid": PID, "engine": "ebpf"}"#, Sign::Bpf),
        Self::new(
            "syscall_trace, ebpf, detailed",
            TRACE,
            r#"{"pid": PID, "engine": "ebpf", "mode": "detailed"}"#,
            Sign::Bpf,
        ),
        Self::new(
            "syscall_trace, tracepoints",
            TRACE,
            r#"{"pid": PID, "engine": "tracepoints", "mode": "detailed"}"#,
            Sign::Events,
        ),
        Self::new("syscall_trace, looks", TRACE, r#"{"pid": PID, "engine": "looks"}"#, Sign::None),
        Self::new(
            "syscall_trace, ptrace",
            TRACE,
            r#"{"pid": PID, "engine": "ptrace", "mode": "detailed"}"#,
            Sign::Traced,
        )
        .within(2_000),
        Self::new(
            "syscall_trace, strace",
            TRACE,
            r#"{"pid": PID, "engine": "strace"}"#,
            Sign::Traced,
        )
        .by("strace")
        .within(2_000),
        Self::new("syscall_trace, perf", TRACE, r#"{"pid": PID, "engine": "perf"}"#, Sign::Events)
            .by("perf"),
        Self::new(
            "syscall_trace, bpftrace",
            TRACE,
            r#"{"pid": PID, "engine": "bpftrace"}"#,
            Sign::Bpf,
        )
        .by("bpftrace"),
    ];

    /// The call, about a process.
    pub fn call(&self, pid: u32) -> Value {
        self.call_within(pid, self.window_ms)
    }

    /// The same in less time.
    pub fn call_within(&self, pid: u32, window_ms: u32) -> Value {
        let asked = self.asked.replace("PID", &pid.to_string());
        let mut asked: Value = serde_json::from_str(&asked).unwrap();
        asked["window_ms"] = json!(window_ms);
        json!({"name": self.tool, "arguments": asked})
    }
}

const TRACE: &str = "syscall_trace";
