//! Clients of the service: each sends a request, waits for the answer, pauses, and sends the next.

use std::{
    io::{Read as _, Write as _},
    net::TcpStream,
    time::{Duration, Instant},
};

/// What a client does with an answer. Without it, twelve of them drown a small machine in packets,
/// and the fault with it.
const PAUSE: Duration = Duration::from_millis(1);

/// Sends requests until the time is up or the service goes away.
pub fn run(port: u16, clients: usize, life: Duration) {
    let ends = Instant::now() + life;
    std::thread::scope(|scope| {
        for _ in 0..clients {
            scope.spawn(move || client(port, ends));
        }
    });
}

fn client(port: u16, ends: Instant) {
    let Ok(mut stream) = TcpStream::connect(("127.0.0.1", port)) else { return };
    let mut answer = [0; 1];
    while Instant::now() < ends {
        if stream.write_all(b"x").is_err() || stream.read_exact(&mut answer).is_err() {
            return;
        }
        std::thread::sleep(PAUSE);
    }
}
