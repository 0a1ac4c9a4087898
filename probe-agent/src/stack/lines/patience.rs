//! When to give up: a small file can be made so that it takes hours, by entries that all refer to the
//! same long list.

/// How many steps are taken between two looks at the clock.
const STEPS: u32 = 1024;

/// Whether to go on, asked from time to time.
pub struct Patience<'a> {
    go_on: &'a mut dyn FnMut() -> bool,
    steps: u32,
    is_over: bool,
}

impl<'a> Patience<'a> {
    /// Goes on for as long as `go_on` says so.
    pub fn new(go_on: &'a mut dyn FnMut() -> bool) -> Self {
        Self { go_on, steps: 0, is_over: false }
    }

    /// Counts one step. False when it is over, from then on for good.
    pub fn step(&mut self) -> bool {
        self.steps += 1;
        if self.steps == STEPS { self.ask() } else { !self.is_over }
    }

    /// Counts what may take as long as many steps.
    pub fn ask(&mut self) -> bool {
        self.steps = 0;
        self.is_over = self.is_over || !(self.go_on)();
        !self.is_over
    }

    /// Whether it was given up.
    pub fn is_over(&self) -> bool {
        self.is_over
    }
}
