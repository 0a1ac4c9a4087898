//! A kernel that hides its addresses: its list has only zeros, and everything would have the name of
//! the last of them.

use super::{busy::Busy, not_run::not_here, recorded, shown::rows};
use probe_agent::{
    perf::sampler::KernelPart,
    proc::Root,
    stack::{naming, profile::Kind},
};
use protocol::recording::{Kernel, NoNames};

#[test]
fn nothing_is_named_by_a_list_of_zeros() {
    const TEST: &str = "nothing_is_named_by_a_list_of_zeros";
    const ZEROS: &str = "0000000000000000 T _stext\n0000000000000000 T vfs_read\n\
                         0000000000000000 t nf_hook\t[nf_tables]\n0000000000000000 T _etext\n";
    let recording = recorded(&Busy::start(&["kernel"]).scope(), 300);
    if recording.basis.kernel != KernelPart::Included {
        return not_here(TEST, "the kernel may not be looked at");
    }
    let folder = tempfile::tempdir().unwrap();
    std::fs::create_dir(folder.path().join("proc")).unwrap();
    for list in [Some(ZEROS), Some(""), None] {
        if let Some(list) = list {
            std::fs::write(folder.path().join("proc/kallsyms"), list).unwrap();
        } else {
            std::fs::remove_file(folder.path().join("proc/kallsyms")).unwrap();
        }
        let names = naming::name(&recording, &Root::at(folder.path()).unwrap(), &mut || true);
        assert_eq!(names.kernel, Kernel::NamesHidden);
        let of_kernel = rows(&names).into_iter().filter(|row| row.module == "[kernel]");
        let of_kernel: Vec<_> = of_kernel.collect();
        // One row for all of it: addresses would be many that say nothing.
        let [row] = &of_kernel[..] else { panic!("{of_kernel:?}") };
        assert!(row.name == "[hidden]" && row.kind == Kind::Unnamed, "{row:?}");
        let file = &names.unnamed[0];
        assert_eq!((file.module.as_str(), file.why), ("[kernel]", NoNames::KernelHidden));
        assert!(file.pct.get() > 50.0, "{file:?}");
        assert_eq!(naming::quality(&recording, &names).kernel, Kernel::NamesHidden);
    }
}
