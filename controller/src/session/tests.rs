//! Agents that are slow, silent or hostile, at the other end of a channel without a process.

use super::*;
use crate::{
    reporter::Silent,
    transport::{Channel, Timings},
};
use protocol::{
    InstrumentId, Report,
    error::AgentError,
    host_text::HostText,
    instruments::example,
    loss::{Lost as LostCounts, Overhead, Truncation},
    message::{Answered, Engine, Meta},
};
use tokio::io::{DuplexStream, duplex, split};

const LIMIT: Duration = Duration::from_secs(30);

/// A session, and the agent's end of its channel.
fn session() -> (Session, Agent) {
    let (ours, theirs) = duplex(1 << 20);
    let (reader, writer) = split(ours);
    let pushed = Pushed {
        channel: Channel::new(reader, writer, None),
        timings: Timings::start(),
        buffer: FrameBuffer::default(),
        hello: Hello {
            host_name: HostText::new(b"web"),
            kernel_release: HostText::new(b"6"),
            uid: 0,
            worker_pid: 2,
            supervisor_pid: 1,
            is_unlinked: true,
        },
        sha256: Sha256([7; 32]),
        look: None,
    };
    let agent = Agent { channel: theirs, buffer: FrameBuffer::default() };
    (Session::begin(&Target::Local, pushed, LIMIT), agent)
}

/// The agent's side.
struct Agent {
    channel: DuplexStream,
    buffer: FrameBuffer,
}

impl Agent {
    async fn next(&mut self) -> ToAgent {
        let mut bytes = vec![0; 4096];
        loop {
            if let Some(message) = self.buffer.take().unwrap() {
                return message;
            }
            let read = self.channel.read(&mut bytes).await.unwrap();
            assert!(read > 0, "the controller closed");
            self.buffer.push(&bytes[..read]);
        }
    }

    async fn next_call(&mut self) -> Call {
        loop {
            if let ToAgent::Call(call) = self.next().await {
                return call;
            }
        }
    }

    async fn say(&mut self, message: &FromAgent) {
        self.channel.write_all(&frame::encode(message).unwrap()).await.unwrap();
    }

    async fn answer(&mut self, id: RequestId) {
        let (_, _, report) = example(InstrumentId::ProcessList);
        self.say(&FromAgent::Answered(Answered { id, result: Ok(answer(report)) })).await;
    }
}

fn answer(report: Report) -> Answer {
    let meta = Meta {
        engine: Engine::Procfs,
        window_ms: None,
        truncation: Truncation::none(1),
        artifact: None,
        lost: LostCounts::default(),
        overhead: Overhead::default(),
        redacted: 0,
    };
    Answer { report: Box::new(report), meta }
}

async fn ask(session: &Session) -> Result<Answer, CallError> {
    let (request, _, _) = example(InstrumentId::ProcessList);
    let budget = Budget { deadline_ms: 5_000, ..Budget::default() };
    session.call(request, budget, &Silent, |_| {}).await
}

#[tokio::test]
async fn answers_find_their_calls() {
    let (session, mut agent) = session();
    let agent = tokio::spawn(async move {
        let (first, second) = (agent.next_call().await, agent.next_call().await);
        // An answer that nobody waits for, and then the two in the other order.
        agent.answer(RequestId(77)).await;
        agent.answer(second.id).await;
        agent.answer(first.id).await;
        agent
    });
    let (first, second) = tokio::join!(ask(&session), ask(&session));
    assert!(first.is_ok() && second.is_ok());
    drop(agent.await.unwrap());
}

#[tokio::test]
async fn a_call_that_is_dropped_is_cancelled_on_the_target() {
    let (session, mut agent) = session();
    {
        let call = ask(&session);
        tokio::pin!(call);
        tokio::select! {
            _ = &mut call => panic!("answered"),
            _ = agent.next_call() => {}
        }
    }
    assert_eq!(agent.next().await, ToAgent::Cancel { id: RequestId(1) });
}

#[tokio::test(start_paused = true)]
async fn an_agent_that_never_answers_is_given_up_and_told() {
    let (session, mut agent) = session();
    let alive = tokio::spawn(async move {
        loop {
            let message = agent.next().await;
            if let ToAgent::Heartbeat { sequence } = message {
                agent.say(&FromAgent::Heartbeat { sequence }).await;
            }
        }
    });
    assert_eq!(ask(&session).await, Err(CallError::Overdue { seconds: 7 }));
    // Not even the withdrawal was answered: the agent hangs, and the next call needs another.
    assert_eq!(session.lost(), Some(Lost::Stuck));
    alive.abort();
}

#[tokio::test(start_paused = true)]
async fn a_call_that_is_overdue_where_nothing_comes_at_all_ends_the_session() {
    let (session, _agent) = session();
    session.shared.life.sleep(Duration::from_secs(20));
    assert_eq!(ask(&session).await, Err(CallError::Overdue { seconds: 7 }));
    assert_eq!(session.lost(), Some(Lost::Silent { seconds: 20 }));
}

#[tokio::test(start_paused = true)]
async fn an_agent_that_ends_an_overdue_call_goes_on() {
    let (session, mut agent) = session();
    let agent = tokio::spawn(async move {
        loop {
            match agent.next().await {
                ToAgent::Heartbeat { sequence } => {
                    agent.say(&FromAgent::Heartbeat { sequence }).await;
                }
                ToAgent::Cancel { id } => {
                    let result = Err(AgentError::Cancelled);
                    agent.say(&FromAgent::Answered(Answered { id, result })).await;
                    return agent;
                }
                ToAgent::Call(_) | ToAgent::Terms(_) | ToAgent::Stop => {}
            }
        }
    });
    assert_eq!(ask(&session).await, Err(CallError::Overdue { seconds: 7 }));
    assert_eq!(session.lost(), None);
    drop(agent.await.unwrap());
}

#[tokio::test(start_paused = true)]
async fn a_silent_agent_ends_the_session() {
    let (session, _agent) = session();
    let (request, _, _) = example(InstrumentId::ProcessList);
    let budget = Budget { deadline_ms: 600_000, ..Budget::default() };
    let lost = session.call(request, budget, &Silent, |_| {}).await;
    assert_eq!(lost, Err(CallError::Lost(Lost::Silent { seconds: 30 })));
    // And every call after it, at once.
    assert_eq!(ask(&session).await, Err(CallError::Lost(Lost::Silent { seconds: 30 })));
}

#[tokio::test(start_paused = true)]
async fn after_a_sleep_an_agent_that_is_gone_is_found_out_within_seconds() {
    let (session, mut agent) = session();
    let session = Arc::new(session);
    assert_eq!(session.make_sure().await, Ok(()), "without a doubt nobody is asked");
    session.shared.life.sleep(Duration::from_secs(75));
    let running = tokio::spawn({
        let session = Arc::clone(&session);
        async move { ask(&session).await }
    });
    agent.next_call().await;
    let began = Instant::now();
    let gone = session.make_sure().await.unwrap_err();
    assert!(began.elapsed() <= Duration::from_secs(4), "{:?}", began.elapsed());
    assert!(
        gone.to_string().starts_with("nothing had come from the target for 75 s, nor"),
        "{gone}"
    );
    // A call that was running is told at once, too.
    assert_eq!(running.await.unwrap(), Err(CallError::Lost(gone.clone())));
    assert_eq!(session.make_sure().await, Err(gone));
}

#[tokio::test(start_paused = true)]
async fn after_a_sleep_an_agent_that_is_there_is_asked_once_and_goes_on() {
    let (session, mut agent) = session();
    session.shared.life.sleep(Duration::from_secs(75));
    let alive = tokio::spawn(async move {
        let ToAgent::Heartbeat { sequence } = agent.next().await else { panic!("no heartbeat") };
        agent.say(&FromAgent::Heartbeat { sequence }).await;
        agent
    });
    assert_eq!(session.make_sure().await, Ok(()));
    assert_eq!(session.make_sure().await, Ok(()));
    drop(alive.await.unwrap());
}

#[tokio::test]
async fn a_channel_that_closes_ends_the_call_that_waits() {
    let (session, mut agent) = session();
    let agent = tokio::spawn(async move {
        agent.next_call().await;
    });
    assert_eq!(ask(&session).await, Err(CallError::Lost(Lost::Closed)));
    agent.await.unwrap();
    assert_eq!(session.lost(), Some(Lost::Closed));
}

#[tokio::test]
async fn what_is_no_message_ends_the_session() {
    let hostile: [&[u8]; 3] =
        [&[0xff; 64], &[3, 0, 0, 0, 99, 0, 0], &[5, 0, 0, 0, 4, 1, 2, 3, 4, 5]];
    for bytes in hostile {
        let (session, mut agent) = session();
        agent.channel.write_all(bytes).await.unwrap();
        let result = ask(&session).await;
        assert!(matches!(result, Err(CallError::Lost(Lost::Garbled(_)))), "{bytes:?}: {result:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn heartbeats_go_out_while_nothing_else_does() {
    let (_session, mut agent) = session();
    let started = Instant::now();
    for expected in 1..=3 {
        assert_eq!(agent.next().await, ToAgent::Heartbeat { sequence: expected });
        agent.say(&FromAgent::Heartbeat { sequence: expected }).await;
    }
    assert_eq!(started.elapsed(), LIMIT);
}

#[tokio::test]
async fn a_stop_waits_for_the_receipt() {
    let (session, mut agent) = session();
    let receipt = Receipt {
        worker_pid: 2,
        supervisor_pid: 1,
        descendants_ended: 0,
        descendants_left: 0,
        files_left: 0,
    };
    let agent = tokio::spawn(async move {
        assert_eq!(agent.next().await, ToAgent::Stop);
        agent.say(&FromAgent::Receipt(receipt)).await;
    });
    let stopped = session.stop(&Silent).await;
    assert_eq!(stopped.receipt, Some(receipt));
    assert!(stopped.is_clean());
    agent.await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn without_a_receipt_nothing_is_claimed() {
    let (session, agent) = session();
    drop(agent);
    let stopped = session.stop(&Silent).await;
    assert!(!stopped.is_clean());
    let sentence = stopped.sentence();
    assert!(sentence.starts_with("no receipt: local"), "{sentence}");
    // A receipt that says that something is left is not clean either.
    let receipt = Receipt {
        worker_pid: 2,
        supervisor_pid: 1,
        descendants_ended: 0,
        descendants_left: 1,
        files_left: 0,
    };
    let stopped = Stopped { receipt: Some(receipt), ..stopped };
    assert!(!stopped.is_clean() && stopped.sentence().contains("1 processes left"));
}
