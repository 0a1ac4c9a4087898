//! How many logins are under way at the same time. A host that many ask at once turns some away
//! before it says anything (`MaxStartups` in sshd_config(5), by default from ten on), and a jump host is
//! asked by everybody who is behind it.

use std::{
    collections::{BTreeSet, HashMap},
    sync::{Arc, Mutex, PoisonError, Weak},
    time::Duration,
};
use tokio::{
    sync::{OwnedSemaphorePermit, Semaphore},
    time::timeout,
};

/// Where logins wait for their turn. Clones share their places.
#[derive(Clone, Debug)]
pub struct Doors {
    hosts: Arc<Mutex<HashMap<Door, Weak<Semaphore>>>>,
    all: Arc<Semaphore>,
}

/// A name or address, and a port.
type Door = (String, u16);

/// A login that is under way, until this is dropped.
#[derive(Debug)]
pub struct Admitted {
    _at_hosts: Vec<OwnedSemaphorePermit>,
    _in_all: Option<OwnedSemaphorePermit>,
}

impl Doors {
    /// Logins at one host at the same time.
    const PER_HOST: usize = 5;
    /// Logins at the same time: each is a key exchange, and computes.
    const IN_ALL: usize = 32;
    /// How long one waits for a place among all. Hosts that are slow or dead hold theirs for long,
    /// and must not keep others out.
    const PATIENCE_IN_ALL: Duration = Duration::from_secs(2);

    /// Waits for a place at each of some hosts. Whoever calls this limits the time.
    pub(super) async fn enter(&self, hosts: &[(&str, u16)]) -> Admitted {
        let doors: BTreeSet<Door> =
            hosts.iter().map(|(host, port)| (host.to_ascii_lowercase(), *port)).collect();
        let mut at_hosts = Vec::new();
        // In one order for everybody: nobody holds a place that another waits for while it waits for
        // one of that other's.
        for door in doors {
            // They are never closed.
            at_hosts.extend(self.door(door).acquire_owned().await);
        }
        let in_all = timeout(Self::PATIENCE_IN_ALL, Arc::clone(&self.all).acquire_owned()).await;
        Admitted { _at_hosts: at_hosts, _in_all: in_all.ok().and_then(Result::ok) }
    }

    fn door(&self, door: Door) -> Arc<Semaphore> {
        let mut hosts = self.hosts.lock().unwrap_or_else(PoisonError::into_inner);
        hosts.retain(|_, door| door.strong_count() > 0);
        if let Some(open) = hosts.get(&door).and_then(Weak::upgrade) {
            return open;
        }
        let new = Arc::new(Semaphore::new(Self::PER_HOST));
        hosts.insert(door, Arc::downgrade(&new));
        new
    }
}

impl Default for Doors {
    fn default() -> Self {
        Self { hosts: Arc::default(), all: Arc::new(Semaphore::new(Self::IN_ALL)) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use futures::FutureExt as _;

    #[tokio::test(start_paused = true)]
    async fn one_host_has_few_places_and_no_other_is_kept_out() {
        let doors = Doors::default();
        let mut inside = Vec::new();
        for _ in 0..Doors::PER_HOST {
            inside.push(doors.enter(&[("jump", 22)]).now_or_never().unwrap());
        }
        assert!(doors.enter(&[("Jump", 22)]).now_or_never().is_none());
        assert!(doors.enter(&[("jump", 2222)]).now_or_never().is_some());
        assert!(doors.enter(&[("web", 22)]).now_or_never().is_some());
        inside.pop();
        assert!(doors.enter(&[("jump", 22)]).now_or_never().is_some());
    }

    #[tokio::test(start_paused = true)]
    async fn hosts_that_hold_all_places_delay_the_next_by_seconds_and_no_more() {
        let doors = Doors::default();
        let mut dead = Vec::new();
        for index in 0..Doors::IN_ALL {
            dead.push(doors.enter(&[(&format!("dead-{index}"), 22)]).await);
        }
        let began = tokio::time::Instant::now();
        let _admitted = doors.enter(&[("web", 22)]).await;
        assert_eq!(began.elapsed(), Doors::PATIENCE_IN_ALL);
    }
}
