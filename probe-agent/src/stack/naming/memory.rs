//! Names of code that is in no file: what runtimes compiled, and the kernel.

use super::{
    Naming,
    apart::Map,
    by_address,
    files::name_of,
    kernel_of,
    weights::{Used, index},
};
use crate::{
    proc::parse,
    stack::{
        fold::inner_pid,
        images::{Image, Kind as ImageKind},
        kernel_names::{self, KernelNames},
        maps::ImageId,
        perf_map::PerfMap,
        profile::Kind,
        recording::Place,
    },
};
use protocol::{
    host_text::HostText,
    recording::{Kernel, NoNames},
};

/// The module of the kernel itself.
const KERNEL: &[u8] = b"[kernel]";

/// What stands for all of its functions where it tells no names.
const HIDDEN: &[u8] = b"[hidden]";

impl Naming<'_> {
    /// Names what is in memory without a file, where a runtime wrote a map of it.
    pub(super) fn name_memory(&mut self, go_on: &mut dyn FnMut() -> bool) {
        let (recording, weights) = (self.recording, self.weights);
        for (id, used) in &weights.images {
            let Some(image) = recording.images.get(index(id.0)) else { continue };
            match image.kind {
                ImageKind::File { .. } | ImageKind::Vdso => {}
                ImageKind::Special => self.name_by(*id, image, used, (None, NoNames::NotOpened)),
                ImageKind::Anonymous { pid } => {
                    let text = go_on().then(|| self.map(pid)).and_then(|map| self.finder.map(map));
                    let map = text.as_deref().map(PerfMap::parse);
                    self.name_by(*id, image, used, (map.as_ref(), NoNames::NoPerfMap));
                }
            }
        }
    }

    fn name_by(
        &mut self,
        id: ImageId,
        image: &Image,
        used: &Used,
        (map, why): (Option<&PerfMap<'_>>, NoNames),
    ) {
        let module = self.module(name_of(image));
        for at in &used.at {
            let place = Place::Code { image: id, at: *at };
            match map.and_then(|map| map.find(*at)) {
                Some(named) => self.put(place, &named.text, Some(module.number), Kind::Jit),
                None => self.put_unnamed(place, &by_address(*at), &module, why),
            }
        }
    }

    /// Where the map of a process is. Its number may be another one in its own namespace; what it is
    /// there is asked now, and known from before where it has ended.
    fn map(&self, pid: u32) -> Map {
        let process = self.recording.processes.iter().rev().find(|process| process.pid == pid);
        let mut owners = vec![0, rustix::process::geteuid().as_raw()];
        let mut status = Vec::new();
        let is_there = self.root.read_proc(&format!("{pid}/status"), &mut status).is_ok();
        if is_there && let Some((line_number, line)) = parse::line_of(&status, "Uid") {
            let numbers = parse::fields(line)
                .filter_map(|field| u32::try_from(parse::number(field, line_number).ok()?).ok());
            owners.extend(numbers);
        }
        let known = process.and_then(|process| process.inner_pid);
        let inner = inner_pid(&status).filter(|_| is_there).or(known);
        let mut pids = vec![pid];
        pids.extend(process.and_then(|process| process.parent));
        if known.is_none() {
            pids.push(std::process::id());
        }
        Map { pids, inner_pid: inner.unwrap_or(pid), owners }
    }

    /// Names what the kernel did. Its list of symbols is read only where it did something: printing it
    /// takes the kernel longer than all else here.
    pub(super) fn name_kernel(&mut self) -> Kernel {
        let part = self.recording.basis.kernel;
        let is_kernel = |place: &&Place| matches!(place, Place::Kernel(_));
        let places: Vec<Place> = self.weights.places.keys().filter(is_kernel).copied().collect();
        if places.is_empty() {
            return kernel_of(part, false);
        }
        let text = self.root.read_long_proc("kallsyms", kernel_names::MOST_BYTES);
        let text = text.map(|text| text.bytes).unwrap_or_default();
        let names = KernelNames::parse(&text);
        let why = match names {
            // Code that the kernel does not list, as programs of eBPF are left out.
            Ok(_) => NoNames::NotMapped,
            Err(_) => NoNames::KernelHidden,
        };
        let module = self.module(HostText::new(KERNEL));
        for place in places {
            let Place::Kernel(address) = place else { continue };
            match names.as_ref().ok().and_then(|names| names.find(address)) {
                Some(found) => {
                    let module = match found.module {
                        None => module.number,
                        Some(name) => {
                            self.module(HostText::new(format!("[{name}]").as_bytes())).number
                        }
                    };
                    self.put(place, &found.named.text, Some(module), Kind::Kernel);
                }
                // Where all are hidden, addresses would be as many rows that say nothing.
                None if names.is_err() => {
                    self.put_unnamed(place, &HostText::new(HIDDEN), &module, why);
                }
                None => self.put_unnamed(place, &by_address(address), &module, why),
            }
        }
        kernel_of(part, names.is_err())
    }
}
