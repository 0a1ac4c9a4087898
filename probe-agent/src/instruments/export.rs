//! Agent side of `export`: sends a recording that was stored, part by part.

use crate::{call::Context, instruments::Collect, stack::stored::Stored};
use protocol::{
    error::AgentError,
    host_text::HostText,
    instruments::{
        Item as AnyItem,
        export::{
            Call, Export, Function, Item, Line, PIECE_BYTES, PIECE_ENTRIES, Parts, Report, Request,
            Stack, Thread,
        },
    },
    loss::{Lost, Truncation},
    message::{Engine, Meta},
};

impl Collect for Export {
    fn collect(request: Request, context: &Context<'_>) -> Result<(Report, Meta), AgentError> {
        let Stored { recording, profile, lines } = Stored::load(request.artifact, context)?;
        let escaped = |text: &String| HostText::escaped(text.clone());
        let modules = profile.modules().iter().map(escaped);
        let functions = profile.functions().iter().map(|function| Function {
            name: escaped(&function.name),
            module: function.module,
            kind: function.kind,
        });
        let threads = profile.threads().iter().map(|thread| Thread {
            pid: thread.pid,
            tid: thread.tid,
            name: escaped(&thread.name),
        });
        let calls = profile.calls().map(|(parent, function)| Call { parent, function });
        let stacks = profile.samples().map(|(thread, call, weight)| Stack { thread, call, weight });
        let lines = lines.iter().map(|line| Line {
            function: line.function,
            file: escaped(&line.file),
            line: line.line,
            weight: line.weight,
        });
        let named = |name: &HostText| name.as_str().len();
        let number = PIECE_BYTES / PIECE_ENTRIES;
        let parts = Parts {
            modules: send(modules, named, Item::Modules, context)?,
            functions: send(functions, |it| named(&it.name), Item::Functions, context)?,
            threads: send(threads, |it| named(&it.name), Item::Threads, context)?,
            calls: send(calls, |_| number, Item::Calls, context)?,
            stacks: send(stacks, |_| number, Item::Stacks, context)?,
            lines: send(lines, |it| named(&it.file), Item::Lines, context)?,
        };
        let meta = Meta {
            engine: Engine::Stored,
            window_ms: None,
            truncation: Truncation::none(parts.stacks.into()),
            artifact: Some(request.artifact),
            lost: Lost::default(),
            overhead: context.overhead(),
            redacted: 0,
        };
        Ok((Report { recording, parts }, meta))
    }
}

/// Sends a part in pieces. Tells how many entries it has.
fn send<T>(
    entries: impl Iterator<Item = T>,
    bytes: impl Fn(&T) -> usize,
    item: impl Fn(Vec<T>) -> Item,
    context: &Context<'_>,
) -> Result<u32, AgentError> {
    let mut sent = 0_u32;
    let (mut piece, mut piece_bytes) = (Vec::new(), 0);
    let flush = |piece: &mut Vec<T>| {
        context.check()?;
        context.send(AnyItem::Export(item(std::mem::take(piece))))
    };
    for entry in entries {
        piece_bytes += bytes(&entry);
        piece.push(entry);
        sent = sent.saturating_add(1);
        if piece_bytes >= PIECE_BYTES || piece.len() >= PIECE_ENTRIES {
            flush(&mut piece)?;
            piece_bytes = 0;
        }
    }
    if !piece.is_empty() {
        flush(&mut piece)?;
    }
    Ok(sent)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        call::{Listener, Withdrawal},
        instruments::fake::FakeMachine,
        proc::Root,
        stack::profile::{self, Builder},
    };
    use protocol::{
        budget::Budget,
        message::{Progress, RequestId, Streamed},
        recording::{Kind, example},
    };
    use std::sync::{Arc, Mutex};

    /// Takes so many pieces and no more.
    struct Taker(Mutex<Vec<Item>>, usize);

    impl Listener for Taker {
        fn progress(&self, _: Progress) {}

        fn item(&self, streamed: Streamed) -> bool {
            let mut taken = self.0.lock().unwrap();
            let AnyItem::Export(item) = streamed.item else { panic!("of another instrument") };
            taken.push(item);
            taken.len() <= self.1
        }
    }

    /// A recording of so many functions, each calling the next, with names of some length.
    fn stored(functions: u32) -> Stored {
        let mut builder = Builder::default();
        let module = Some(builder.module("app"));
        let thread = builder.thread(profile::Thread { pid: 7, tid: 8, name: "w".into() });
        let mut node = None;
        for number in 0..functions {
            let name = format!("{number:0>100}");
            let function = builder.function(profile::Function { name, module, kind: Kind::User });
            node = Some(builder.node(node, function));
            builder.count(thread, node, u64::from(number) + 1);
        }
        Stored { recording: example(), profile: builder.finish(), lines: Vec::new() }
    }

    fn exported(
        stored: &Stored,
        most: usize,
    ) -> (Result<(Report, Meta), AgentError>, Vec<Item>, AgentError) {
        let (root, artifacts) = (Root::live().unwrap(), Mutex::default());
        let taker = Taker(Mutex::default(), most);
        let call = || (RequestId(1), Budget::default(), Arc::new(Withdrawal::default()));
        let context = Context::new(&root, &artifacts, &taker, call());
        let artifact = stored.keep(&context).unwrap();
        let result = Export::collect(Request { artifact }, &context);
        let unknown = protocol::artifact::ArtifactId(!artifact.0);
        let error = Export::collect(Request { artifact: unknown }, &context).unwrap_err();
        drop(context);
        (result, taker.0.into_inner().unwrap(), error)
    }

    #[test]
    fn a_recording_is_sent_whole_in_pieces_that_fit_a_frame() {
        let stored = stored(20_000);
        let (result, items, error) = exported(&stored, usize::MAX);
        let (report, meta) = result.unwrap();
        assert_eq!(meta.engine, Engine::Stored);
        assert_eq!(report.recording, stored.recording);
        let parts = Parts {
            modules: 1,
            functions: 20_000,
            threads: 1,
            calls: 20_000,
            stacks: 20_000,
            lines: 0,
        };
        assert_eq!(report.parts, parts);
        let (mut functions, mut calls) = (Vec::new(), 0);
        for item in &items {
            let bytes = postcard::to_stdvec(item).unwrap().len();
            assert!(bytes < protocol::frame::MAX_FRAME_BYTES / 4, "{bytes} bytes");
            match item {
                Item::Functions(list) => functions.extend(list.clone()),
                Item::Calls(list) => {
                    // What a number leads to was sent before.
                    assert!(list.iter().all(|call| place(call.function) < functions.len()));
                    calls += list.len();
                }
                Item::Modules(_) | Item::Threads(_) | Item::Stacks(_) | Item::Lines(_) => {}
            }
        }
        assert_eq!((functions.len(), calls), (20_000, 20_000));
        assert!(items.len() > 30, "{} pieces", items.len());
        assert!(functions[19_999].name.as_str().ends_with("019999"));
        assert!(matches!(error, AgentError::NoSuchArtifact { .. }));
    }

    fn place(number: u32) -> usize {
        usize::try_from(number).unwrap()
    }

    #[test]
    fn nothing_more_is_sent_to_one_who_went_away() {
        let (result, items, _) = exported(&stored(20_000), 2);
        assert_eq!(result.unwrap_err(), AgentError::Cancelled);
        assert_eq!(items.len(), 3);
    }

    #[test]
    fn what_is_no_recording_is_not_sent() {
        let machine = FakeMachine::in_namespace(crate::instruments::fake::FIRST);
        let context = machine.context();
        let kept =
            context.artifacts.lock().unwrap().keep(crate::artifacts::Kind::SelfTest, vec![1]);
        let artifact = kept.unwrap();
        let error = Export::collect(Request { artifact }, &context).unwrap_err();
        assert_eq!(error, AgentError::OtherArtifact { id: artifact });
    }
}
