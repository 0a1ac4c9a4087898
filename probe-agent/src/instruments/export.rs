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
        let escaped = |text: &String| HostText::kept(text.clone());
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
