//! Which service and which container a process belongs to, read off its cgroup's path.
//!
//! systemd names cgroups after units (`systemd.unit(5)`); container engines name them after
//! containers: Docker, containerd, CRI-O and Podman by 64 hexadecimal digits, LXC and
//! systemd-nspawn by the machine's name.

use super::cgroup::Membership;
use protocol::host_text::HostText;

/// Where a process runs.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Placement {
    /// The innermost service, or scope where there is no service.
    pub service: Option<HostText>,
    /// `engine:name`; an id is shortened to 12 digits, as the engines do.
    pub container: Option<HostText>,
}

/// Digits of a container's id that are shown.
const SHOWN_DIGITS: usize = 12;

/// Prefixes of scopes and folders, with the engine they stand for.
const ENGINES: [(&str, &str); 7] = [
    ("docker-", "docker"),
    ("cri-containerd-", "containerd"),
    ("nerdctl-", "containerd"),
    ("crio-conmon-", "crio"),
    ("crio-", "crio"),
    ("libpod-payload-", "podman"),
    ("libpod-", "podman"),
];

/// Reads the placement from all hierarchies; they mostly agree, and the first that says something
/// counts.
pub fn of(memberships: &[Membership<'_>]) -> Placement {
    let mut placement = Placement::default();
    for membership in memberships {
        let path = String::from_utf8_lossy(membership.path);
        if placement.container.is_none() {
            placement.container = container(&path);
        }
        if placement.service.is_none() {
            placement.service = service(&path);
        }
    }
    placement
}

fn service(path: &str) -> Option<HostText> {
    let innermost = |suffix| path.rsplit('/').find(|part| part.len() > 8 && part.ends_with(suffix));
    innermost(".service").or_else(|| innermost(".scope")).map(|name| HostText::new(name.as_bytes()))
}

fn container(path: &str) -> Option<HostText> {
    let mut parent = "";
    let mut found = None;
    for part in path.split('/') {
        let named = engine_and_id(parent, part)
            .map(|(engine, id)| format!("{engine}:{}", id.get(..SHOWN_DIGITS).unwrap_or(id)))
            .or_else(|| machine(parent, part));
        // The innermost one: a container may run containers.
        found = named.or(found);
        parent = part;
    }
    found.map(|name| HostText::new(name.as_bytes()))
}

fn engine_and_id<'p>(parent: &str, part: &'p str) -> Option<(&'static str, &'p str)> {
    let stem = part.strip_suffix(".scope").unwrap_or(part);
    // containerd's cgroupfs driver writes `system.slice:docker:<id>`.
    let stem = stem.rsplit(':').next().unwrap_or(stem);
    for (prefix, engine) in ENGINES {
        if let Some(id) = stem.strip_prefix(prefix).filter(|id| is_container_id(id)) {
            return Some((engine, id));
        }
    }
    if !is_container_id(stem) {
        return None;
    }
    let engine = match parent {
        "docker" => "docker",
        "libpod_parent" => "podman",
        _ => "container",
    };
    Some((engine, stem))
}

fn is_container_id(text: &str) -> bool {
    text.len() == 64 && text.bytes().all(|byte| byte.is_ascii_hexdigit())
}

fn machine(parent: &str, part: &str) -> Option<String> {
    if let Some(name) = part.strip_prefix("lxc.payload.") {
        return Some(format!("lxc:{name}"));
    }
    if parent == "lxc" && !part.is_empty() {
        return Some(format!("lxc:{part}"));
    }
    let name = part
        .strip_prefix("systemd-nspawn@")
        .and_then(|rest| rest.strip_suffix(".service"))
        .or_else(|| {
            let rest = part.strip_prefix("machine-")?.strip_suffix(".scope")?;
            // libvirt names virtual machines likewise; those are not containers.
            (!rest.starts_with("qemu")).then_some(rest)
        })?;
    Some(format!("nspawn:{name}"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::proc::cgroup::parse_memberships;

    #[test]
    fn paths_of_the_engines() {
        let id = "0123456789abcdef".repeat(4);
        let cases = [
            (format!("0::/system.slice/docker-{id}.scope"), "docker:0123456789ab"),
            (format!("4:memory:/docker/{id}"), "docker:0123456789ab"),
            (
                format!("0::/kubepods.slice/kubepods-pod1.slice/cri-containerd-{id}.scope"),
                "containerd:0123456789ab",
            ),
            (format!("0::/kubepods/besteffort/pod1/{id}"), "container:0123456789ab"),
            (format!("0::/machine.slice/libpod-{id}.scope/container"), "podman:0123456789ab"),
            (format!("0::/machine.slice/crio-{id}.scope"), "crio:0123456789ab"),
            ("0::/lxc.payload.web/system.slice/a.service".to_owned(), "lxc:web"),
            ("4:memory:/lxc/web".to_owned(), "lxc:web"),
            ("0::/machine.slice/systemd-nspawn@web.service/payload".to_owned(), "nspawn:web"),
            ("0::/machine.slice/machine-qemu\\x2d1.scope".to_owned(), ""),
            ("0::/user.slice/user-0.slice/session-1.scope".to_owned(), ""),
        ];
        for (line, want) in cases {
            let found = of(&parse_memberships(line.as_bytes())).container;
            assert_eq!(found.map(|name| name.to_string()).unwrap_or_default(), want, "{line}");
        }
    }

    #[test]
    fn the_innermost_service_counts() {
        let cases = [
            ("0::/system.slice/nginx.service", "nginx.service"),
            ("0::/user.slice/user-1.slice/user@1.service/app.slice/x.service", "x.service"),
            ("0::/user.slice/user-1.slice/session-3.scope", "session-3.scope"),
            ("0::/", ""),
            ("2:cpu:/\n1:name=systemd:/system.slice/a.service\n0::/", "a.service"),
        ];
        for (text, want) in cases {
            let found = of(&parse_memberships(text.as_bytes())).service;
            assert_eq!(found.map(|name| name.to_string()).unwrap_or_default(), want, "{text}");
        }
    }
}
