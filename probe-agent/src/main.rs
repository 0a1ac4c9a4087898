//! `probe-agent`: measures one Linux machine.
//!
//! `serve` is what the controller starts: frames in on stdin, frames out on stdout. `--local` is for
//! a person on the machine, and `sweep` for either.

use probe_agent::{
    command_line::{self, Command, HELP, Question, VERSION},
    exit, local, os, serve, sweep,
};
use protocol::handshake::Token;

fn main() {
    os::open_files::raise_limit();
    let code = match command_line::parse(std::env::args_os()) {
        Ok(Command::Serve(start)) => serve(&start),
        Ok(Command::Sweep(start)) => sweep::run(&start),
        Ok(Command::Local(question)) => by_hand(&question),
        Ok(Command::Help) => local::print(HELP),
        Ok(Command::Version) => local::print(VERSION),
        Err(error) => exit::complain(&error.to_string(), exit::USAGE),
    };
    std::process::exit(code);
}

fn by_hand(question: &Question) -> i32 {
    let asked = match local::Asked::read(question) {
        Ok(asked) => asked,
        Err((error, code)) => return exit::complain(&error, code),
    };
    let launch = match asked.launch() {
        Ok(launch) => launch,
        Err(error) => return exit::complain(&error, exit::CANNOT_START),
    };
    if question.needs_spawner() && launch.is_none() {
        os::observer::mark(new_token());
        os::spawner::start();
    }
    os::sandbox::enter(os::sandbox::Reads::of(question.snapshot.is_some()));
    local::run(question, asked, launch.as_ref())
}

/// A session's name for what is started by hand.
fn new_token() -> Option<Token> {
    let mut random = [0; 16];
    getrandom::fill(&mut random).ok()?;
    Some(Token::new(random))
}

fn serve(start: &serve::Start) -> i32 {
    os::observer::mark(Some(start.token.clone()));
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
