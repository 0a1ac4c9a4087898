//! How packets are carried from one device to another: held back, one after the other where there is
//! a rate, some lost by chance, none while the link is cut, all later while it is stalled.

use super::{Carried, Side, network::MTU_BYTES};
use crate::split_mix::SplitMix;
use rustix::process::setpriority_process;
use std::{
    collections::BTreeSet,
    sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError, mpsc},
    thread,
    time::{Duration, Instant},
};
use tun_rs::SyncDevice;

/// One end of a link.
pub(super) type Device = Arc<SyncDevice>;

/// What a link does to packets, the same both ways.
#[derive(Clone, Copy, Debug)]
pub struct Conditions {
    /// What a packet and its answer take together, where nothing waits before them.
    pub round_trip: Duration,
    /// Bytes a second each way, with headers; no limit where there is none.
    pub bytes_per_s: Option<u64>,
    /// Bytes that may wait for their turn each way, where there is a rate. A packet that finds no
    /// room is dropped, as by most devices.
    pub queue_bytes: u64,
    /// How many of a thousand packets are lost by chance.
    pub lost_per_mille: u32,
    /// What chance begins with: the same seed loses the same packets of the same traffic.
    pub seed: u64,
}

impl Conditions {
    /// What many home routers hold.
    const QUEUE_BYTES: u64 = 256_000;

    /// A delay, and nothing else.
    #[must_use]
    pub const fn delayed(round_trip: Duration) -> Self {
        Self {
            round_trip,
            bytes_per_s: None,
            queue_bytes: Self::QUEUE_BYTES,
            lost_per_mille: 0,
            seed: 1,
        }
    }

    /// The same with a rate.
    #[must_use]
    pub const fn at_rate(self, bytes_per_s: u64) -> Self {
        Self { bytes_per_s: Some(bytes_per_s), ..self }
    }

    /// The same with losses.
    #[must_use]
    pub const fn losing(self, lost_per_mille: u32) -> Self {
        Self { lost_per_mille, ..self }
    }
}

/// What becomes of packets now.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Order {
    /// They are carried.
    #[default]
    Carry,
    /// They are dropped without a word, those on the way too.
    Drop,
    /// They wait until the link is healed.
    Hold,
}

/// The order in force, and what came of all of them so far.
#[derive(Debug, Default)]
pub(super) struct Control {
    order: Mutex<Order>,
    changed: Condvar,
    account: Mutex<Account>,
    flows: Mutex<Flows>,
}

/// Connections, as something in between knows them that translates addresses.
#[derive(Debug, Default)]
struct Flows {
    known: BTreeSet<[u16; 2]>,
    forgotten: BTreeSet<[u16; 2]>,
}

/// What was carried, and what was not.
#[derive(Debug, Default)]
struct Account {
    carried: Vec<Carried>,
    dropped: u64,
}

impl Control {
    pub(super) fn give(&self, order: Order) {
        *lock(&self.order) = order;
        self.changed.notify_all();
    }

    pub(super) fn take_carried(&self) -> Vec<Carried> {
        std::mem::take(&mut lock(&self.account).carried)
    }

    pub(super) fn dropped(&self) -> u64 {
        lock(&self.account).dropped
    }

    /// Forgets all connections that there are: their packets are dropped from now on.
    pub(super) fn forget(&self) {
        let mut flows = lock(&self.flows);
        let mut known = std::mem::take(&mut flows.known);
        flows.forgotten.append(&mut known);
    }

    /// Whether a packet is dropped for no other reason than an order.
    fn drops(&self, packet: &[u8]) -> bool {
        if *lock(&self.order) == Order::Drop {
            return true;
        }
        let Some(ports) = ports(packet) else { return false };
        let mut flows = lock(&self.flows);
        if flows.forgotten.contains(&ports) {
            return true;
        }
        flows.known.insert(ports);
        false
    }

    /// Waits while packets are to wait. Says whether they are carried then.
    fn until_released(&self) -> bool {
        let order = lock(&self.order);
        let order = self.changed.wait_while(order, |order| *order == Order::Hold);
        *order.unwrap_or_else(PoisonError::into_inner) == Order::Carry
    }

    fn drop_one(&self) {
        lock(&self.account).dropped += 1;
    }
}

/// The ports of a packet of TCP over IPv4, the smaller one first (RFC 791, section 3.1, and RFC 9293,
/// section 3.1).
fn ports(packet: &[u8]) -> Option<[u16; 2]> {
    const TCP: u8 = 6;
    let words = usize::from(packet.first()? & 0x0f);
    if *packet.get(9)? != TCP {
        return None;
    }
    let [a, b, c, d] = packet.get(4 * words..4 * words + 4)?.try_into().ok()?;
    let mut ports = [u16::from_be_bytes([a, b]), u16::from_be_bytes([c, d])];
    ports.sort_unstable();
    Some(ports)
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The sending end of one direction: when each packet has left, and whether it does.
struct Sender {
    conditions: Conditions,
    chance: SplitMix,
    /// When what waits will have left.
    free_at: Instant,
}

impl Sender {
    fn new(conditions: Conditions, side: Side, now: Instant) -> Self {
        // The two directions lose different packets.
        let salt = match side {
            Side::Server => 0,
            Side::Client => 0x5eed,
        };
        Self { conditions, chance: SplitMix::new(conditions.seed ^ salt), free_at: now }
    }

    /// When a packet that is sent now arrives; `None` where it does not.
    fn arrival(&mut self, bytes: usize, now: Instant) -> Option<Instant> {
        let Conditions { round_trip, bytes_per_s, queue_bytes, lost_per_mille, .. } =
            self.conditions;
        if self.chance.following() % 1000 < u64::from(lost_per_mille) {
            return None;
        }
        if let Some(rate) = bytes_per_s {
            let rate = rate.max(1) as f64;
            let waiting = self.free_at.saturating_duration_since(now).as_secs_f64() * rate;
            if waiting + bytes as f64 > queue_bytes as f64 {
                return None;
            }
            let takes = Duration::from_secs_f64(bytes as f64 / rate);
            self.free_at = self.free_at.max(now) + takes;
        } else {
            self.free_at = now;
        }
        Some(self.free_at + round_trip / 2)
    }
}

/// Carries packets one way until the device is gone.
pub(super) fn carry(
    from: &Device,
    (side, to): (Side, &Device),
    conditions: Conditions,
    control: &Arc<Control>,
) {
    let (from, to) = (Arc::clone(from), Arc::clone(to));
    let (at_start, at_end) = (Arc::clone(control), Arc::clone(control));
    let (sender, packets) = mpsc::channel::<(Instant, Vec<u8>)>();
    thread::spawn(move || {
        go_first();
        let mut sending = Sender::new(conditions, side, Instant::now());
        let mut bytes = [0; 2 * MTU_BYTES as usize];
        while let Ok(read) = from.recv(&mut bytes) {
            let at = Instant::now();
            let packet = bytes.get(..read).unwrap_or_default();
            let arrival = if at_start.drops(packet) { None } else { sending.arrival(read, at) };
            let Some(due) = arrival else {
                at_start.drop_one();
                continue;
            };
            if sender.send((due, packet.to_vec())).is_err() {
                return;
            }
            lock(&at_start.account).carried.push(Carried { at, to: side, bytes: read });
        }
    });
    thread::spawn(move || {
        go_first();
        for (due, packet) in packets {
            thread::sleep(due.saturating_duration_since(Instant::now()));
            if at_end.until_released() {
                // What a device does not take is lost, as on any link; TCP sends it again.
                let _ = to.send(&packet);
            } else {
                at_end.drop_one();
            }
        }
    });
}

/// Lets this thread run before others: on a busy machine packets would come late, which cubic takes
/// for a queue that builds up, and ends slow start early (HyStart in the kernel's tcp_cubic.c).
fn go_first() {
    const BEFORE_OTHERS: i32 = -19;
    // Without it the link is no less right, only less even.
    let _ = setpriority_process(None, BEFORE_OTHERS);
}

#[cfg(test)]
mod tests {
    use super::*;

    const ROUND_TRIP: Duration = Duration::from_millis(100);

    /// When each of some packets arrives, all of them sent at once.
    fn arrivals(conditions: Conditions, packets: usize) -> Vec<Option<Duration>> {
        let now = Instant::now();
        let mut sender = Sender::new(conditions, Side::Server, now);
        let mut arrival = || sender.arrival(1000, now).map(|at| at - now);
        (0..packets).map(|_| arrival()).collect()
    }

    #[test]
    fn packets_leave_one_after_the_other_at_the_rate_and_no_more_wait_than_there_is_room() {
        let conditions =
            Conditions { queue_bytes: 3000, ..Conditions::delayed(ROUND_TRIP).at_rate(100_000) };
        let ms = |ms| Some(Duration::from_millis(ms));
        assert_eq!(arrivals(conditions, 5), [ms(60), ms(70), ms(80), None, None]);
        let conditions = Conditions::delayed(ROUND_TRIP);
        assert_eq!(arrivals(conditions, 3), [ms(50), ms(50), ms(50)]);
    }

    #[test]
    fn what_was_connected_before_is_forgotten_both_ways_and_nothing_else() {
        let packet = |from: u16, to: u16| {
            let mut packet = [0; 24];
            (packet[0], packet[9]) = (0x45, 6);
            packet[20..22].copy_from_slice(&from.to_be_bytes());
            packet[22..24].copy_from_slice(&to.to_be_bytes());
            packet
        };
        let control = Control::default();
        assert!(!control.drops(&packet(40000, 22)));
        control.forget();
        assert!(control.drops(&packet(40000, 22)) && control.drops(&packet(22, 40000)));
        assert!(!control.drops(&packet(40001, 22)));
        for short in [&[][..], &[0x45], &packet(40000, 22)[..23]] {
            assert!(!control.drops(short), "{short:?}");
        }
    }

    #[test]
    fn as_many_are_lost_as_was_said_and_the_same_each_time() {
        let conditions = Conditions::delayed(ROUND_TRIP).losing(10);
        let lost = |seed| {
            let arrivals = arrivals(Conditions { seed, ..conditions }, 20_000);
            arrivals.iter().map(Option::is_none).collect::<Vec<bool>>()
        };
        let count = lost(7).iter().filter(|is_lost| **is_lost).count();
        assert!((100..300).contains(&count), "{count} of 20,000");
        assert_eq!(lost(7), lost(7));
        assert_ne!(lost(7), lost(8));
    }
}
