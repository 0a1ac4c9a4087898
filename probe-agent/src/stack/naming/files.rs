//! Names of code in files, and in the library of the kernel.

use super::{
    InModule, Naming,
    apart::{Apart, Program},
    by_address,
    weights::{Used, index},
};
use crate::stack::{
    How,
    elf::ElfFile,
    images::{Code, Image, Kind as ImageKind},
    maps::ImageId,
    module::Module,
    profile::Kind,
    recording::Place,
    symbols::Symbols,
    vdso::VdsoNames,
};
use protocol::{host_text::HostText, recording::NoNames};
use std::sync::Arc;

/// Images whose other parts are looked for together.
const TOGETHER: usize = 16;

impl Naming<'_> {
    /// Names what is in images that have bytes.
    pub(super) fn name_files(&mut self, go_on: &mut dyn FnMut() -> bool) {
        let (recording, weights) = (self.recording, self.weights);
        for some in weights.images.chunks(TOGETHER) {
            let is_patient = go_on();
            let programs: Vec<Option<Program>> = some
                .iter()
                .map(|(id, used)| self.program(*id, used).filter(|_| is_patient))
                .collect();
            let apart = self.finder.apart(programs.iter().flatten().cloned().collect());
            let mut apart = apart.into_iter();
            for ((id, used), program) in some.iter().zip(&programs) {
                let apart = program.as_ref().and_then(|_| apart.next()).unwrap_or_default();
                if let Some(image) = recording.images.get(index(id.0)) {
                    self.name_image(*id, image, used, (&apart, go_on));
                }
            }
        }
    }

    /// What is to be looked for of a program, if anything is.
    fn program(&self, id: ImageId, used: &Used) -> Option<Program> {
        let image = self.recording.images.get(index(id.0))?;
        let ImageKind::File { .. } = image.kind else { return None };
        let code = image.code.as_ref().ok()?;
        let file = ElfFile::parse(code.bytes()).ok()?;
        let has = |section: &[u8]| file.section(section).is_some();
        let wants_lines =
            || used.at.iter().any(|at| self.sources.wants(Place::Code { image: id, at: *at }));
        if has(b".symtab") && (has(b".debug_info") || !wants_lines()) {
            return None;
        }
        let processes = used.processes.iter();
        let processes = processes.filter_map(|at| self.recording.processes.get(index(*at)));
        let pids = processes.clone().map(|process| process.pid).collect();
        let mut parents: Vec<u32> = processes.filter_map(|process| process.parent).collect();
        parents.dedup();
        Some(Program { code: Arc::clone(code), path: image.name.clone(), pids, parents })
    }

    fn name_image(
        &mut self,
        id: ImageId,
        image: &Image,
        used: &Used,
        (apart, go_on): (&Apart, &mut dyn FnMut() -> bool),
    ) {
        let is_vdso = match image.kind {
            ImageKind::File { .. } => false,
            ImageKind::Vdso => true,
            // Named by what the process says of it.
            ImageKind::Anonymous { .. } | ImageKind::Special => return,
        };
        let module = self.module(name_of(image));
        self.modules.insert(id, module.number);
        match &image.code {
            Ok(code) if is_vdso => self.name_vdso(id, code, used, &module),
            Ok(code) => self.name_file(id, code, used, (&module, apart, go_on)),
            Err(_) => {
                for at in &used.at {
                    let place = Place::Code { image: id, at: *at };
                    self.put_unnamed(place, &by_address(*at), &module, NoNames::NotOpened);
                }
            }
        }
    }

    fn name_file(
        &mut self,
        id: ImageId,
        code: &Code,
        used: &Used,
        (module, apart, go_on): (&InModule, &Apart, &mut dyn FnMut() -> bool),
    ) {
        let places = used.at.iter().map(|at| (Place::Code { image: id, at: *at }, *at));
        let (why, debug) = match apart {
            Apart::Found(debug) => (NoNames::Stripped, Some(debug)),
            Apart::OfAnotherBuild => (NoNames::OtherDebugFile, None),
            Apart::None => (NoNames::Stripped, None),
        };
        let Ok(file) = ElfFile::parse(code.bytes()) else {
            for (place, at) in places {
                self.put_unnamed(place, &by_address(at), module, why);
            }
            return;
        };
        let debug_elf = debug.and_then(|debug| ElfFile::parse(debug.bytes()).ok());
        let symbols = Symbols::of(&file, debug_elf.as_ref());
        let mut wanted = Vec::new();
        for (place, at) in places {
            let Some(svma) = file.svma_of_file_offset(at) else {
                self.put_unnamed(place, &by_address(at), module, why);
                continue;
            };
            match symbols.find(svma) {
                Some(named) if named.how != How::FunctionStart => {
                    self.put(place, &named.text, Some(module.number), Kind::User);
                }
                Some(named) => self.put_unnamed(place, &named.text, module, why),
                None => self.put_unnamed(place, &by_address(svma), module, why),
            }
            if self.sources.wants(place) {
                wanted.push((place, svma));
            }
        }
        drop(symbols);
        let with_lines = match (file.section(b".debug_info"), &debug_elf) {
            (None, Some(debug)) => debug,
            (Some(_), _) | (None, None) => &file,
        };
        let shared = debug.and_then(|debug| ElfFile::parse(debug.shared()?).ok());
        self.sources.look_up(&wanted, with_lines, shared.as_ref(), go_on);
    }

    fn name_vdso(&mut self, id: ImageId, code: &Code, used: &Used, module: &InModule) {
        let names = VdsoNames::parse(code.bytes()).ok();
        for at in &used.at {
            let place = Place::Code { image: id, at: *at };
            match names.as_ref().and_then(|names| names.find(*at)) {
                Some(named) if named.how != How::FunctionStart => {
                    self.put(place, &named.text, Some(module.number), Kind::User);
                }
                Some(named) => self.put_unnamed(place, &named.text, module, NoNames::Stripped),
                None => self.put_unnamed(place, &by_address(*at), module, NoNames::Stripped),
            }
        }
    }
}

/// What an image is called.
pub(super) fn name_of(image: &Image) -> HostText {
    let module = Module::of_mapping(&image.name);
    let is_deleted = match image.kind {
        ImageKind::File { is_deleted, .. } => is_deleted || module.is_deleted,
        ImageKind::Vdso | ImageKind::Anonymous { .. } | ImageKind::Special => false,
    };
    if is_deleted {
        crate::stack::demangle::with_suffix(&module.name, " (deleted)")
    } else {
        module.name
    }
}
