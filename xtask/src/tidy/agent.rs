//! Checks that the agent's sources hold nothing that its sandbox would have to refuse.

use super::{File, files};

/// What starts programs, changes files or connects, and the only files that may hold it.
const ONLY_IN: [(&[&str], &[&str]); 7] = [
    (
        // Readers of what tracers print have the call's name in their words.
        &[
            "Command::new",
            "process::Command",
            "CommandExt",
            "execve(",
            "execveat(",
            "SYS_execve",
            "posix_spawn",
        ],
        &["os/observer.rs"],
    ),
    // A command of a person's own, which only the command line asks for.
    (&["execv("], &["os/launcher.rs"]),
    (&["launcher::start", "context.launch ="], &["local.rs"]),
    // Before the first request, and only the folder that the agent itself was put in.
    (&["remove_file", "remove_dir"], &["serve.rs"]),
    // A sweep, which only the command line asks for.
    (&["fs::unlinkat", "pidfd_send_signal"], &["sweep/folders.rs", "sweep/processes.rs"]),
    // What is the agent's own, a command that it launched, and a sweep, on kernels that signal by number only.
    (
        &["kill_process", "libc::kill"],
        &["os/supervisor.rs", "os/observer.rs", "os/tracer/requests.rs", "sweep/processes.rs"],
    ),
    (
        &[
            "OpenOptions",
            "File::create",
            "fs::write",
            "create_dir",
            "fs::rename",
            "set_permissions",
            "hard_link",
            "OFlags::WRONLY",
            "OFlags::RDWR",
            "OFlags::CREATE",
            "OFlags::TRUNC",
            "TcpStream",
            "TcpListener",
            "UdpSocket",
            "UnixListener",
            "UnixStream::connect",
        ],
        &[],
    ),
];

/// Names of modules that are built for tests only.
fn test_modules(files: &[File]) -> Vec<&str> {
    let agent = files.iter().filter(|file| file.path.starts_with("probe-agent/src/"));
    agent
        .flat_map(|file| file.text.split("#[cfg(test)]\n").skip(1))
        .filter_map(|rest| rest.lines().next()?.split_once("mod ")?.1.strip_suffix(';'))
        .collect()
}

/// The names of what is refused, so that it can be tried or refused.
const NAMES_IT: [&str; 2] = ["os/trespass.rs", "os/sandbox/"];

#[test]
fn only_the_spawner_starts_programs_and_nothing_opens_for_writing() {
    let files = files();
    let tests = test_modules(&files);
    assert!(tests.contains(&"fake"), "{tests:?}");
    let agents = files.iter().filter_map(|file| {
        let path = file.path.strip_prefix("probe-agent/src/")?;
        let is_code = path.ends_with(".rs")
            && !path.split(['/', '.']).any(|part| part == "tests" || tests.contains(&part))
            && !NAMES_IT.iter().any(|name| path.starts_with(name));
        is_code.then_some((path, file.text.split("mod tests {").next().unwrap_or_default()))
    });
    let mut looked_at = 0;
    for (path, code) in agents {
        looked_at += 1;
        let lines = code.lines().filter(|line| !line.trim_start().starts_with("//"));
        for line in lines {
            for (words, places) in ONLY_IN {
                let found = words.iter().find(|word| line.contains(*word));
                assert!(
                    found.is_none() || places.contains(&path),
                    "probe-agent/src/{path} is not a place for it: {line}"
                );
            }
        }
    }
    assert!(looked_at > 80, "only {looked_at} files");
}
