//! The call tree, cut to its heaviest branches: from where stacks begin, or from where they end; of
//! one profile, or of two side by side.
//!
//! A tree that is grown from the ends of stacks is never there as a whole: it has far more branches
//! than the other. Both kinds are grown heaviest branch first and no further than what is shown; of the
//! rest it is counted how much there is.

use super::{Children, Kind, Profile, place};
use crate::order;
use protocol::call_tree::Cuts;
use std::{
    cmp::Reverse,
    collections::{BinaryHeap, HashMap},
};

/// What of a tree is wanted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Growth {
    /// From where stacks end, and to their callers.
    pub is_reversed: bool,
    /// Only of threads with this number.
    pub tid: Option<u32>,
    /// Where it is cut.
    pub cuts: Cuts,
}

/// Weights in two profiles: of the first, and of the one that it is compared with.
pub type Weights = [u64; 2];

/// A function in its place in the tree.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Branch {
    /// How many are above it.
    pub depth: u32,
    /// What the function is called; escaped already.
    pub name: String,
    /// The file that it is in.
    pub module: Option<String>,
    /// What kind of code it is.
    pub kind: Kind,
    /// What ends in it here.
    pub own: Weights,
    /// What goes through it here, or ends in it.
    pub total: Weights,
    parent: Option<usize>,
}

/// Branches that were cut.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Cut {
    /// How many.
    pub branches: u64,
    /// What leads into them.
    pub weight: Weights,
}

impl Cut {
    fn add(&mut self, branches: u64, weight: Weights) {
        self.branches += branches;
        for (sum, weight) in self.weight.iter_mut().zip(weight) {
            *sum += weight;
        }
    }
}

/// Why branches were cut.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Why {
    Light,
    Deep,
    Surplus,
}

/// Branches that were cut at one place.
#[derive(Clone, Copy, Debug)]
struct CutAt {
    parent: Option<usize>,
    why: Why,
    cut: Cut,
}

/// All that was cut, by why.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct AllCut {
    /// Too light.
    pub too_light: Cut,
    /// Too deep.
    pub too_deep: Cut,
    /// Beyond the number that is shown.
    pub too_many: Cut,
}

/// The heaviest branches of a tree.
#[derive(Clone, Debug)]
pub struct Tree {
    /// The heaviest first; each behind that above it.
    branches: Vec<Branch>,
    cuts: Vec<CutAt>,
    /// The weight of all its stacks.
    pub weight: Weights,
    /// Of them, of those without any frame.
    pub without_frames: Weights,
}

impl Tree {
    /// How many branches there are.
    pub const fn len(&self) -> usize {
        self.branches.len()
    }

    /// Whether there is none.
    pub const fn is_empty(&self) -> bool {
        self.branches.is_empty()
    }

    /// So many of the heaviest branches, each before those below it; of those with the same parent, the
    /// heaviest first.
    pub fn heaviest(&self, most: usize) -> Vec<&Branch> {
        let shown = self.branches.get(..most).unwrap_or(&self.branches);
        let mut below: HashMap<Option<usize>, Vec<usize>> = HashMap::new();
        for (index, branch) in shown.iter().enumerate().rev() {
            below.entry(branch.parent).or_default().push(index);
        }
        let mut rows = Vec::with_capacity(shown.len());
        let mut walk = below.remove(&None).unwrap_or_default();
        while let Some(index) = walk.pop() {
            rows.extend(shown.get(index));
            walk.extend(below.remove(&Some(index)).unwrap_or_default());
        }
        rows
    }

    /// What is not among so many of the heaviest branches.
    pub fn cut_behind(&self, most: usize) -> AllCut {
        let is_shown = |parent: Option<usize>| parent.is_none_or(|parent| parent < most);
        let mut all = AllCut::default();
        for CutAt { parent, why, cut } in &self.cuts {
            if !is_shown(*parent) {
                // Its weight is that of a branch above it.
                all.too_many.branches += cut.branches;
                continue;
            }
            let sum = match why {
                Why::Light => &mut all.too_light,
                Why::Deep => &mut all.too_deep,
                Why::Surplus => &mut all.too_many,
            };
            sum.add(cut.branches, cut.weight);
        }
        for branch in self.branches.iter().skip(most) {
            let weight = if is_shown(branch.parent) { branch.total } else { [0; 2] };
            all.too_many.add(1, weight);
        }
        all
    }
}

/// Some of a profile's stacks, at one node of each.
#[derive(Clone, Copy, Debug)]
struct Member {
    side: usize,
    node: u32,
    weight: u64,
    /// The number that its function has in both profiles.
    function: u32,
}

/// A branch that may be shown.
struct Found {
    members: Vec<Member>,
    function: u32,
    depth: u32,
    parent: Option<usize>,
    total: Weights,
}

/// What makes a function the same in two profiles: its name, its module and its kind.
type Named<'p> = (&'p str, Option<&'p str>, Kind);

/// A profile as a tree is grown from it.
struct Side<'p> {
    profile: &'p Profile,
    children: Children,
    own: Vec<u64>,
    totals: Vec<u64>,
    /// How many branches are at a node and beyond it.
    sizes: Vec<u64>,
    /// For each function, the number that it has in both profiles.
    functions: Vec<u32>,
    weight: u64,
    without_frames: u64,
}

impl<'p> Side<'p> {
    fn new(profile: &'p Profile, growth: Growth, known: &mut HashMap<Named<'p>, u32>) -> Self {
        let mut own = vec![0; profile.nodes.len()];
        let (mut weight, mut without_frames) = (0, 0);
        let is_wanted = |thread: u32| {
            let thread = profile.threads.get(place(thread));
            growth.tid.is_none_or(|tid| thread.is_some_and(|thread| thread.tid == tid))
        };
        for sample in profile.samples.iter().filter(|sample| is_wanted(sample.thread)) {
            weight += sample.weight;
            match sample.node.and_then(|node| own.get_mut(place(node))) {
                Some(own) => *own += sample.weight,
                None => without_frames += sample.weight,
            }
        }
        let totals = profile.total_weights(own.clone());
        let functions = profile
            .functions
            .iter()
            .map(|function| {
                let module = function.module.and_then(|module| profile.module(module));
                let next = u32::try_from(known.len()).unwrap_or(u32::MAX);
                *known.entry((function.name.as_str(), module, function.kind)).or_insert(next)
            })
            .collect();
        let sizes = if growth.is_reversed { depths(profile) } else { sizes(profile, &totals) };
        let children = profile.children();
        Self { profile, children, own, totals, sizes, functions, weight, without_frames }
    }

    fn member(&self, side: usize, node: u32, weight: u64) -> Option<Member> {
        let function = self.profile.function_of(node)?;
        let function = *self.functions.get(place(function))?;
        (weight > 0).then_some(Member { side, node, weight, function })
    }

    fn size(&self, node: u32) -> u64 {
        self.sizes.get(place(node)).copied().unwrap_or(1)
    }
}

/// For each node, how many it and those below it are that have any weight.
fn sizes(profile: &Profile, totals: &[u64]) -> Vec<u64> {
    profile.total_weights(totals.iter().map(|total| u64::from(*total > 0)).collect())
}

/// For each node, how many it and those above it are.
fn depths(profile: &Profile) -> Vec<u64> {
    let mut depths: Vec<u64> = Vec::with_capacity(profile.nodes.len());
    for node in &profile.nodes {
        let above = node.parent.and_then(|parent| depths.get(place(parent)));
        let depth = above.copied().unwrap_or_default() + 1;
        depths.push(depth);
    }
    depths
}

struct Grower<'p> {
    sides: Vec<Side<'p>>,
    is_reversed: bool,
}

impl Grower<'_> {
    fn at(&self, side: usize, node: u32, weight: impl Fn(&Side<'_>) -> u64) -> Option<Member> {
        let found = self.sides.get(side)?;
        found.member(side, node, weight(found))
    }

    /// What the tree begins with.
    fn roots(&self) -> Vec<Member> {
        let mut roots = Vec::new();
        for (index, side) in self.sides.iter().enumerate() {
            let weights = if self.is_reversed { &side.own } else { &side.totals };
            let weight = |node: u32| weights.get(place(node)).copied().unwrap_or_default();
            let member = |node| side.member(index, node, weight(node));
            if self.is_reversed {
                let count = u32::try_from(side.profile.nodes.len()).unwrap_or(u32::MAX);
                roots.extend((0..count).filter_map(member));
            } else {
                roots.extend(side.children.roots().filter_map(member));
            }
        }
        roots
    }

    /// What comes beyond a branch.
    fn beyond(&self, members: &[Member]) -> Vec<Member> {
        let mut beyond = Vec::new();
        for Member { side, node, weight, .. } in members {
            let Some(found) = self.sides.get(*side) else { continue };
            if self.is_reversed {
                let parent = found.profile.node(*node).and_then(|node| node.parent);
                beyond.extend(parent.and_then(|node| self.at(*side, node, |_| *weight)));
            } else {
                let total = |node| found.totals.get(place(node)).copied().unwrap_or_default();
                let below = found.children.of(*node);
                beyond.extend(below.filter_map(|node| found.member(*side, node, total(node))));
            }
        }
        beyond
    }

    /// The parts of two whole weights that these are, in thousand-millionths; the greater counts.
    fn share(&self, weights: Weights) -> u64 {
        const WHOLE: u128 = 1_000_000_000;
        let part = |(side, weight): (&Side<'_>, u64)| {
            let all = u128::from(side.weight.max(1));
            u64::try_from(u128::from(weight) * WHOLE / all).unwrap_or(u64::MAX)
        };
        self.sides.iter().zip(weights).map(part).max().unwrap_or_default()
    }

    /// How many branches some members make, with all beyond them. `None` to stop.
    fn count(&self, members: Vec<Member>, go_on: &mut dyn FnMut() -> bool) -> Option<u64> {
        let (mut count, mut steps) = (0, 0_u32);
        let mut walk = vec![members];
        while let Some(members) = walk.pop() {
            steps = steps.wrapping_add(1);
            if steps.is_multiple_of(256) && !go_on() {
                return None;
            }
            if let [Member { side, node, .. }] = members.as_slice() {
                count += self.sides.get(*side).map_or(1, |side| side.size(*node));
                continue;
            }
            count += 1;
            walk.extend(by_function(self.beyond(&members)));
        }
        Some(count)
    }
}

/// Members of each function apart.
fn by_function(mut members: Vec<Member>) -> Vec<Vec<Member>> {
    order::by_key(&mut members, |member| member.function);
    members
        .chunk_by(|left, right| left.function == right.function)
        .map(<[Member]>::to_vec)
        .collect()
}

fn total(members: &[Member]) -> Weights {
    let mut total = [0; 2];
    for member in members {
        if let Some(sum) = total.get_mut(member.side) {
            *sum += member.weight;
        }
    }
    total
}

impl Profile {
    /// The call tree, cut; with the weights of a second profile beside, where one is given. A branch is
    /// as heavy as its share in that of the two where it is heavier, so that what is gone is seen too.
    ///
    /// What is above a branch weighs at least as much, so it is never cut before it. `None` where
    /// `go_on` says to stop; it is asked again and again.
    pub fn tree(
        &self,
        baseline: Option<&Self>,
        growth: Growth,
        go_on: &mut dyn FnMut() -> bool,
    ) -> Option<Tree> {
        let mut known = HashMap::new();
        let sides: Vec<Side<'_>> = [Some(self), baseline]
            .into_iter()
            .flatten()
            .map(|profile| Side::new(profile, growth, &mut known))
            .collect();
        let mut numbered: Vec<(Named<'_>, u32)> = known.into_iter().collect();
        order::by_key(&mut numbered, |(_, number)| *number);
        let named: Vec<Named<'_>> = numbered.into_iter().map(|(function, _)| function).collect();
        let sum = |of: fn(&Side<'_>) -> u64| {
            let mut sums = [0; 2];
            for (sum, side) in sums.iter_mut().zip(&sides) {
                *sum = of(side);
            }
            sums
        };
        let (weight, without_frames) = (sum(|side| side.weight), sum(|side| side.without_frames));
        let grower = Grower { sides, is_reversed: growth.is_reversed };
        let mut growing = Growing::new(&grower, growth.cuts, &named);
        growing.grow(go_on)?;
        let Growing { branches, cuts, .. } = growing;
        Some(Tree { branches, cuts, weight, without_frames })
    }
}

/// A tree while it grows.
struct Growing<'g, 'p> {
    grower: &'g Grower<'p>,
    limits: Cuts,
    named: &'g [Named<'p>],
    branches: Vec<Branch>,
    cuts: Vec<CutAt>,
    found: Vec<Option<Found>>,
    /// Those found by share, of equal ones that found first; and their places.
    heaviest: BinaryHeap<(u64, Reverse<usize>)>,
}

impl<'g, 'p> Growing<'g, 'p> {
    fn new(grower: &'g Grower<'p>, limits: Cuts, named: &'g [Named<'p>]) -> Self {
        let (branches, cuts, found) = (Vec::new(), Vec::new(), Vec::new());
        Self { grower, limits, named, branches, cuts, found, heaviest: BinaryHeap::new() }
    }

    fn grow(&mut self, go_on: &mut dyn FnMut() -> bool) -> Option<()> {
        self.take(self.grower.roots(), None, 0, go_on)?;
        while self.branches.len() < place(self.limits.limit) {
            let Some((_, Reverse(index))) = self.heaviest.pop() else { break };
            let Some(found) = self.found.get_mut(index).and_then(Option::take) else { continue };
            if !go_on() {
                return None;
            }
            let beyond = self.grower.beyond(&found.members);
            let mut own = found.total;
            for (own, beyond) in own.iter_mut().zip(total(&beyond)) {
                *own = own.saturating_sub(beyond);
            }
            let Some((name, module, kind)) = self.named.get(place(found.function)) else {
                continue;
            };
            let branch = self.branches.len();
            self.branches.push(Branch {
                depth: found.depth,
                name: (*name).to_owned(),
                module: module.map(str::to_owned),
                kind: *kind,
                own,
                total: found.total,
                parent: found.parent,
            });
            self.take(beyond, Some(branch), found.depth + 1, go_on)?;
        }
        for found in std::mem::take(&mut self.found).into_iter().flatten() {
            self.cut(found.members, found.parent, Why::Surplus, go_on)?;
        }
        Some(())
    }

    /// Takes what comes beyond a branch: for later, or cuts it.
    fn take(
        &mut self,
        beyond: Vec<Member>,
        parent: Option<usize>,
        depth: u32,
        go_on: &mut dyn FnMut() -> bool,
    ) -> Option<()> {
        /// Of a percent, in the unit of shares.
        const PERCENT: u64 = 10_000_000;
        for members in by_function(beyond) {
            let total = total(&members);
            let share = self.grower.share(total);
            let why = if share < u64::from(self.limits.min_pct) * PERCENT {
                Why::Light
            } else if depth >= self.limits.depth {
                Why::Deep
            } else {
                let Some(function) = members.first().map(|member| member.function) else {
                    continue;
                };
                self.heaviest.push((share, Reverse(self.found.len())));
                self.found.push(Some(Found { members, function, depth, parent, total }));
                continue;
            };
            self.cut(members, parent, why, go_on)?;
        }
        Some(())
    }

    fn cut(
        &mut self,
        members: Vec<Member>,
        parent: Option<usize>,
        why: Why,
        go_on: &mut dyn FnMut() -> bool,
    ) -> Option<()> {
        let weight = total(&members);
        let branches = self.grower.count(members, go_on)?;
        // What is cut at the same place for the same reason is counted in one.
        let same = self.cuts.iter_mut().rev().take(3);
        let same = same.into_iter().find(|at| at.parent == parent && at.why == why);
        match same {
            Some(at) => at.cut.add(branches, weight),
            None => self.cuts.push(CutAt { parent, why, cut: Cut { branches, weight } }),
        }
        Some(())
    }
}

#[cfg(test)]
mod tests;
