//! Token ids: what each subserver knows of each request, and what messages carry.

use std::sync::Arc;

use handoff_scheduler::{ModelIdx, PeerRequest, RequestId, Row};

use crate::prompts::Prompts;
use crate::qwen3::weights::mix;

/// What each subserver knows of each request, as if each were on a machine of its own: a subserver learns tokens only by making them or
/// from a message.
#[derive(Debug)]
pub(super) struct Contexts {
    vocabulary: u32,
    seed: u64,
    /// What requests ask; random token ids if `None`.
    prompts: Option<Arc<Prompts>>,
    /// Messages carry the whole context, and the receiver looks for the prefix that it knows.
    fresh: bool,
    /// Messages are taken in right before a launch of their receiver.
    fused: bool,
    /// By model, then slot.
    known: Vec<Vec<Vec<u32>>>,
    /// By model: messages that are not taken in yet.
    inboxes: Vec<Vec<Parcel>>,
    spare: Vec<Vec<u32>>,
}

/// Tokens `start..start + tokens.len()` of a request.
#[derive(Debug)]
pub(super) struct Parcel {
    slot: u32,
    start: usize,
    tokens: Vec<u32>,
}

impl Contexts {
    pub(super) fn new(
        n_models: usize,
        vocabulary: u32,
        seed: u64,
        prompts: Option<Arc<Prompts>>,
        fresh: bool,
        fused: bool,
    ) -> Self {
        Self {
            vocabulary: vocabulary.max(1),
            seed,
            prompts,
            fresh,
            fused,
            known: vec![Vec::new(); n_models],
            inboxes: (0..n_models).map(|_| Vec::new()).collect(),
            spare: Vec::new(),
        }
    }

    /// The tokens with which request number `request_idx` arrives: its prompt, then random ids for what a random start has put behind it; all
    /// random without prompts. The same in every run under a seed.
    pub(super) fn prompt(&mut self, request: RequestId, request_idx: u64, n_tokens: u32) -> Parcel {
        let mut tokens = self.spare.pop().unwrap_or_default();
        tokens.clear();
        let (seed, vocabulary) = (mix(self.seed ^ mix(request_idx + 1)), u64::from(self.vocabulary));
        let token = |position| u32::try_from(mix(seed.wrapping_add(position)) % vocabulary).unwrap_or_default();
        if let Some(prompts) = &self.prompts {
            tokens.extend_from_slice(prompts.of_request(request_idx));
        }
        tokens.extend((tokens.len() as u64..u64::from(n_tokens)).map(token));
        Parcel { slot: request.slot, start: 0, tokens }
    }

    /// What the sender of `message` puts into it.
    pub(super) fn pack(&mut self, message: &PeerRequest) -> Parcel {
        let mut tokens = self.spare.pop().unwrap_or_default();
        tokens.clear();
        let start = if self.fresh { 0 } else { message.suffix_start as usize };
        let known = &self.known[message.from.idx()][message.request.idx()];
        tokens.extend_from_slice(&known[start..message.context_tokens as usize]);
        Parcel { slot: message.request.slot, start, tokens }
    }

    /// A parcel arrives at `model`.
    pub(super) fn deliver(&mut self, model: ModelIdx, parcel: Parcel) {
        if self.fused {
            self.inboxes[model.idx()].push(parcel);
        } else {
            self.take_in(model, parcel);
        }
    }

    /// Takes in what waits in the inbox of `model`.
    pub(super) fn empty_inbox(&mut self, model: ModelIdx) {
        let mut inbox = std::mem::take(&mut self.inboxes[model.idx()]);
        for parcel in inbox.drain(..) {
            self.take_in(model, parcel);
        }
        self.inboxes[model.idx()] = inbox;
    }

    /// The new tokens of a row of `model`.
    pub(super) fn new_tokens(&self, model: ModelIdx, row: &Row) -> &[u32] {
        let known = &self.known[model.idx()][row.request.idx()];
        assert!(
            known.len() == (row.kv_tokens + row.new_tokens) as usize,
            "{model} knows {} tokens of {} and was asked for a row that ends at {}",
            known.len(),
            row.request,
            row.kv_tokens + row.new_tokens
        );
        &known[row.kv_tokens as usize..]
    }

    /// `model` made a token that was committed.
    pub(super) fn commit(&mut self, model: ModelIdx, request: RequestId, token: u32) {
        self.known[model.idx()][request.idx()].push(token);
    }

    /// All that `model` knows of a request.
    pub(super) fn known(&self, model: ModelIdx, request: RequestId) -> &[u32] {
        &self.known[model.idx()][request.idx()]
    }

    fn take_in(&mut self, model: ModelIdx, parcel: Parcel) {
        let known = &mut self.known[model.idx()];
        let slot = parcel.slot as usize;
        if slot >= known.len() {
            known.resize(slot + 1, Vec::new());
        }
        let known = &mut known[slot];
        let kept = if self.fresh {
            // A request that is treated as new: the receiver finds what it knows by comparing all of it.
            known.iter().zip(&parcel.tokens).take_while(|(known, came)| known == came).count()
        } else {
            parcel.start
        };
        assert!(kept <= known.len(), "{model} got tokens from {kept} on but knows {} of slot {slot}", known.len());
        known.truncate(kept);
        known.extend_from_slice(&parcel.tokens[kept - parcel.start..]);
        self.spare.push(parcel.tokens);
    }
}
