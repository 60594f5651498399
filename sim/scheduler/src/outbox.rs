//! What a subserver has to say and nobody has asked for yet.

use alloc::vec::Vec;

use crate::event::Output;

/// Outputs in the order in which they came up. A vector with a cursor: everything is taken soon after it is put in, so nothing ever wraps
/// around, and a driver that wants all of it takes the vector.
#[derive(Clone, Debug, Default)]
pub(crate) struct Outbox {
    outputs: Vec<Output>,
    n_polled: usize,
}

impl Outbox {
    #[inline]
    pub(crate) fn push(&mut self, output: Output) {
        self.outputs.push(output);
    }

    /// Where the next output will stand; valid until something is taken.
    #[inline]
    pub(crate) const fn position(&self) -> usize {
        self.outputs.len()
    }

    #[inline]
    pub(crate) fn replace(&mut self, position: usize, output: Output) {
        self.outputs[position] = output;
    }

    #[inline]
    pub(crate) fn pop(&mut self) -> Option<Output> {
        let output = self.outputs.get(self.n_polled).copied();
        if output.is_some() {
            self.n_polled += 1;
        } else {
            self.outputs.clear();
            self.n_polled = 0;
        }
        output
    }

    /// Replaces what `buffer` held by all outputs that nobody has polled.
    #[inline]
    pub(crate) fn take(&mut self, buffer: &mut Vec<Output>) {
        buffer.clear();
        if self.n_polled == 0 {
            core::mem::swap(&mut self.outputs, buffer);
        } else {
            buffer.extend_from_slice(&self.outputs[self.n_polled..]);
            self.outputs.clear();
            self.n_polled = 0;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ids::RequestId;

    fn finished(slot: u32) -> Output {
        Output::ReportFinished { request: RequestId { slot, generation: 0 } }
    }

    #[test]
    fn outputs_are_polled_or_taken_once_and_in_order() {
        let mut outbox = Outbox::default();
        (0..3).for_each(|slot| outbox.push(finished(slot)));
        assert_eq!(outbox.pop(), Some(finished(0)));
        let mut taken = alloc::vec![finished(9)];
        outbox.take(&mut taken);
        assert_eq!(taken, [finished(1), finished(2)]);
        assert_eq!(outbox.pop(), None);
        outbox.push(finished(3));
        outbox.take(&mut taken);
        assert_eq!(taken, [finished(3)]);
    }
}
