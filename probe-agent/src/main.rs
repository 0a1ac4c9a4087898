//! `probe-agent`: measures one Linux machine.
//!
//! `serve` is what the controller starts: frames in on stdin, frames out on stdout. `--local` is for
//! a person on the machine.

use probe_agent::{
    command_line::{self, Command, HELP, VERSION},
    exit, local, os, serve,
};

fn main() {
    os::open_files::raise_limit();
    let code = match command_line::parse(std::env::args_os()) {
        Ok(Command::Serve(start)) => serve(&start),
        Ok(Command::Local(question)) => {
            if question.starts_programs() {
                os::spawner::start();
            }
            os::sandbox::enter(os::sandbox::Reads::of(question.snapshot.is_some()));
            local::run(&question)
        }
        Ok(Command::Help) => local::print(HELP),
        Ok(Command::Version) => local::print(VERSION),
        Err(error) => exit::complain(&error.to_string(), exit::USAGE),
    };
    std::process::exit(code);
}

fn serve(start: &serve::Start) -> i32 {
    start.remove_folder();
    os::harden::harden();
    match os::supervisor::supervise(|| start.is_folder_gone()) {
        Ok(worker) => {
            os::sandbox::enter(os::sandbox::Reads::of(start.snapshot.is_some()));
            serve::serve(start, worker)
        }
        Err(error) => exit::complain(
            &format!("cannot start a process of its own: {error}"),
            exit::CANNOT_START,
        ),
    }
}
