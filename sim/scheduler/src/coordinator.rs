//! Who may launch when: scheduling modes that span subservers, and devices that several models share.

use alloc::vec::Vec;

use crate::ids::ModelIdx;

/// Which subserver is asked first when only one of several may launch.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Order {
    /// The model with the highest index first: it runs as soon as somebody waits there.
    LargeFirst,
    /// The model with the lowest index first: it runs until nobody waits there.
    SmallFirst,
    /// The models after the one that ran last, in turn: on each device among its own models.
    Alternate,
}

/// How launches of different subservers depend on each other (the four scheduling modes; eager and delayed differ in thresholds only).
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Coordination {
    /// Subservers launch on their own: modes eager and delayed.
    Independent,
    /// Rounds: all models launch what waits, and no result counts before the slowest of the round is done.
    StepSync,
    /// One model at a time, in a stated order; the others' requests stall.
    ModelSync(Order),
}

/// How a device that several models share runs them.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Sharing {
    /// Forwards run side by side.
    Overlapped,
    /// One forward at a time, in a stated order. The device is free from the end of a forward on: a model whose results are still being read
    /// has nothing to launch yet, and the next in the order takes the device meanwhile.
    Exclusive(Order),
}

/// A set of models, as a bit mask; at most 32 models.
type ModelSet = u32;

/// Decides which subservers a driver may ask for a launch, and in which order. Both drivers use it, so that a mode means the same in both.
///
/// A step is reported in this order: [`launched`](Self::launched), [`left_device`](Self::left_device), [`completed`](Self::completed). At the
/// end of every instant the driver asks the models in order, `for position in 0..n`, each that [`may_launch`](Self::may_launch) then, and
/// reports [`launched`](Self::launched) or [`declined`](Self::declined).
#[derive(Clone, Debug)]
pub struct Coordinator {
    coordination: Coordination,
    /// Per model: those whose forward must not run at the same time.
    conflicts: Vec<ModelSet>,
    order: Vec<ModelIdx>,
    alternate: bool,
    /// Models whose step is in flight, from launch until its results are absorbed.
    in_flight: ModelSet,
    /// Models that occupy their device.
    on_device: ModelSet,
    /// Step-sync: models that have launched or declined in this round.
    asked: ModelSet,
}

impl Coordinator {
    /// The most models that one coordinator handles.
    pub const MODELS_MAX: usize = 32;

    /// A coordinator of `devices.len()` models, of which model i runs on device `devices[i]`.
    ///
    /// # Panics
    /// If there are more than [`Self::MODELS_MAX`] models.
    #[must_use]
    pub fn new(coordination: Coordination, sharing: Sharing, devices: &[u16]) -> Self {
        assert!(devices.len() <= Self::MODELS_MAX, "at most {} models", Self::MODELS_MAX);
        let n = devices.len();
        let conflicts = (0..n)
            .map(|model| match (coordination, sharing) {
                (Coordination::ModelSync(_), _) => (1_u32 << (n - 1) << 1).wrapping_sub(1),
                (_, Sharing::Exclusive(_)) => {
                    (0..n).filter(|&other| devices[other] == devices[model]).fold(0, |set, other| set | 1 << other)
                }
                (_, Sharing::Overlapped) => 1 << model,
            })
            .collect();
        let stated = match (coordination, sharing) {
            (Coordination::ModelSync(order), _) | (_, Sharing::Exclusive(order)) => order,
            // On separate devices the order of launches at one instant changes nothing but the log.
            _ => Order::LargeFirst,
        };
        let mut order: Vec<ModelIdx> = (0..n).map(|model| ModelIdx(model as u8)).collect();
        if stated == Order::LargeFirst {
            order.reverse();
        }
        Self {
            coordination,
            conflicts,
            order,
            alternate: stated == Order::Alternate,
            in_flight: 0,
            on_device: 0,
            asked: 0,
        }
    }

    /// The models in the order in which a driver must ask them, `position` counting from 0.
    #[inline]
    #[must_use]
    pub fn order(&self, position: usize) -> ModelIdx {
        self.order[position]
    }

    /// Whether `model` may be asked for a launch now.
    #[inline]
    #[must_use]
    pub fn may_launch(&self, model: ModelIdx) -> bool {
        let bit = 1 << model.0;
        if self.in_flight & bit != 0 || self.on_device & self.conflicts[model.idx()] != 0 {
            return false;
        }
        match self.coordination {
            Coordination::Independent => true,
            Coordination::StepSync => self.asked & bit == 0,
            Coordination::ModelSync(_) => self.in_flight == 0,
        }
    }

    /// `model` launched a step.
    #[inline]
    pub fn launched(&mut self, model: ModelIdx) {
        let bit = 1 << model.0;
        self.in_flight |= bit;
        self.on_device |= bit;
        self.asked |= bit;
    }

    /// `model` was asked and had nothing to launch.
    #[inline]
    pub fn declined(&mut self, model: ModelIdx) {
        self.asked |= 1 << model.0;
    }

    /// The forward of `model` is over: its device is free for others.
    #[inline]
    pub fn left_device(&mut self, model: ModelIdx) {
        self.on_device &= !(1 << model.0);
        // Not at the launch, for the driver is going through the order then; until now nobody could take the device anyway.
        if self.alternate {
            self.rotate_after(model);
        }
    }

    /// The results of `model`'s step are there. Whether they may be absorbed now; otherwise (step-sync) all of the round are absorbed
    /// together when [`Self::round_is_over`] says so.
    #[inline]
    pub fn completed(&mut self, model: ModelIdx) -> bool {
        let bit = 1 << model.0;
        debug_assert!(
            self.in_flight & bit != 0 && self.on_device & bit == 0,
            "{model} completed before it left its device"
        );
        self.in_flight &= !bit;
        self.coordination != Coordination::StepSync
    }

    /// Step-sync: whether every model has been asked in this round and none runs any more.
    #[inline]
    #[must_use]
    pub fn round_is_over(&self) -> bool {
        self.in_flight == 0 && self.asked.count_ones() as usize == self.order.len()
    }

    /// Step-sync: the results of a round are absorbed, or new rows arrived while nothing ran; a new round begins.
    pub fn begin_round(&mut self) {
        self.asked = 0;
    }

    /// Whether rounds are kept.
    #[inline]
    #[must_use]
    pub fn is_step_sync(&self) -> bool {
        self.coordination == Coordination::StepSync
    }

    /// Puts the models that share a device with `model` in turn, the one after it first. The places of all others stay.
    fn rotate_after(&mut self, model: ModelIdx) {
        let n = self.order.len();
        let set = self.conflicts[model.idx()];
        let mut turn = (1..=n).map(|step| (model.idx() + step) % n).filter(|other| set >> other & 1 == 1);
        for place in self.order.iter_mut().filter(|place| set >> place.0 & 1 == 1) {
            *place = ModelIdx(turn.next().expect("the order holds every model once") as u8);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SMALL: ModelIdx = ModelIdx(0);
    const LARGE: ModelIdx = ModelIdx(1);

    /// The models that launch at an instant, in order, where `wants` says which have rows.
    fn launch(coordinator: &mut Coordinator, wants: &[u8]) -> Vec<u8> {
        let mut launched = Vec::new();
        for position in 0..coordinator.order.len() {
            let model = coordinator.order(position);
            if !coordinator.may_launch(model) {
                continue;
            }
            if wants.contains(&model.0) {
                coordinator.launched(model);
                launched.push(model.0);
            } else {
                coordinator.declined(model);
            }
        }
        launched
    }

    fn end(coordinator: &mut Coordinator, model: u8) -> bool {
        coordinator.left_device(ModelIdx(model));
        coordinator.completed(ModelIdx(model))
    }

    /// Which models run one after the other while all of them always have rows.
    fn sequence(coordinator: &mut Coordinator, n: usize) -> Vec<u8> {
        let all: Vec<u8> = (0..coordinator.order.len() as u8).collect();
        (0..n)
            .map(|_| {
                let launched = launch(coordinator, &all);
                assert_eq!(launched.len(), 1, "one forward at a time");
                end(coordinator, launched[0]);
                launched[0]
            })
            .collect()
    }

    fn exclusive(order: Order, devices: &[u16]) -> Coordinator {
        Coordinator::new(Coordination::Independent, Sharing::Exclusive(order), devices)
    }

    #[test]
    fn the_stated_order_says_who_takes_a_shared_device() {
        assert_eq!(sequence(&mut exclusive(Order::LargeFirst, &[0, 0, 0]), 3), [2, 2, 2]);
        assert_eq!(sequence(&mut exclusive(Order::SmallFirst, &[0, 0, 0]), 3), [0, 0, 0]);
        assert_eq!(sequence(&mut exclusive(Order::Alternate, &[0, 0, 0]), 5), [0, 1, 2, 0, 1]);
    }

    #[test]
    fn in_turn_means_after_the_one_that_ran_last() {
        let mut coordinator = exclusive(Order::Alternate, &[0, 0, 0]);
        assert_eq!(launch(&mut coordinator, &[1]), [1]);
        end(&mut coordinator, 1);
        assert_eq!(launch(&mut coordinator, &[0, 1]), [0]);
        end(&mut coordinator, 0);
        assert_eq!(launch(&mut coordinator, &[0, 2]), [2]);
        end(&mut coordinator, 2);
        assert_eq!(sequence(&mut coordinator, 3), [0, 1, 2]);
    }

    #[test]
    fn a_slow_reader_of_results_does_not_lose_the_turn() {
        let mut coordinator = exclusive(Order::Alternate, &[0, 0, 0]);
        assert_eq!(launch(&mut coordinator, &[0, 1, 2]), [0]);
        coordinator.left_device(ModelIdx(0));
        assert_eq!(launch(&mut coordinator, &[1, 2]), [1]);
        end(&mut coordinator, 1);
        assert_eq!(launch(&mut coordinator, &[1, 2]), [2]);
        // Model 0 ran first but is read last; after model 2 it is its turn all the same.
        assert!(coordinator.completed(ModelIdx(0)));
        end(&mut coordinator, 2);
        assert_eq!(launch(&mut coordinator, &[0, 1, 2]), [0]);
    }

    #[test]
    fn devices_take_turns_of_their_own() {
        let mut coordinator = exclusive(Order::Alternate, &[0, 0, 1, 1]);
        assert_eq!(launch(&mut coordinator, &[0, 1, 2, 3]), [0, 2]);
        end(&mut coordinator, 0);
        end(&mut coordinator, 2);
        assert_eq!(launch(&mut coordinator, &[0, 1, 2, 3]), [1, 3]);
        end(&mut coordinator, 3);
        assert_eq!(launch(&mut coordinator, &[2, 3]), [2]);
        end(&mut coordinator, 2);
        end(&mut coordinator, 1);
        assert_eq!(launch(&mut coordinator, &[0, 1, 2, 3]), [0, 3]);
    }

    #[test]
    fn the_device_is_free_from_the_end_of_a_forward_and_the_model_from_its_results() {
        let mut coordinator = exclusive(Order::LargeFirst, &[0, 0]);
        assert_eq!(launch(&mut coordinator, &[0, 1]), [1]);
        assert!(!coordinator.may_launch(SMALL) && !coordinator.may_launch(LARGE));
        coordinator.left_device(LARGE);
        assert!(coordinator.may_launch(SMALL) && !coordinator.may_launch(LARGE));
        coordinator.completed(LARGE);
        assert!(coordinator.may_launch(LARGE));
    }

    #[test]
    fn overlapped_forwards_and_other_devices_do_not_wait() {
        let overlapped = &mut Coordinator::new(Coordination::Independent, Sharing::Overlapped, &[0, 0]);
        assert_eq!(launch(overlapped, &[0, 1]), [1, 0]);
        assert_eq!(launch(&mut exclusive(Order::SmallFirst, &[0, 1]), &[0, 1]), [0, 1]);
    }

    #[test]
    fn model_sync_waits_for_the_results_on_any_device() {
        let model_sync = Coordination::ModelSync(Order::SmallFirst);
        let mut coordinator = Coordinator::new(model_sync, Sharing::Overlapped, &[0, 1]);
        assert_eq!(launch(&mut coordinator, &[0, 1]), [0]);
        coordinator.left_device(SMALL);
        assert_eq!(launch(&mut coordinator, &[1]), []);
        assert!(coordinator.completed(SMALL));
        assert_eq!(launch(&mut coordinator, &[1]), [1]);
        let mut turns = Coordinator::new(Coordination::ModelSync(Order::Alternate), Sharing::Overlapped, &[0, 1, 2]);
        assert_eq!(sequence(&mut turns, 4), [0, 1, 2, 0]);
    }

    #[test]
    fn a_round_ends_when_all_were_asked_and_none_runs() {
        let mut coordinator = Coordinator::new(Coordination::StepSync, Sharing::Overlapped, &[0, 1, 2]);
        assert_eq!(launch(&mut coordinator, &[0, 2]), [2, 0]);
        assert!(!end(&mut coordinator, 0), "results wait for the slowest");
        // A model that is done, and one that had nothing, wait for the next round.
        assert_eq!(launch(&mut coordinator, &[0, 1]), []);
        assert!(!coordinator.round_is_over());
        assert!(!end(&mut coordinator, 2));
        assert!(coordinator.round_is_over());
        coordinator.begin_round();
        assert!(!coordinator.round_is_over());
        assert_eq!(launch(&mut coordinator, &[0, 1]), [1, 0]);
    }

    #[test]
    fn in_a_round_an_exclusive_device_runs_its_models_one_after_the_other() {
        let sharing = Sharing::Exclusive(Order::LargeFirst);
        let mut coordinator = Coordinator::new(Coordination::StepSync, sharing, &[0, 0]);
        assert_eq!(launch(&mut coordinator, &[0, 1]), [1]);
        end(&mut coordinator, 1);
        assert!(!coordinator.round_is_over(), "the small model was not asked yet");
        assert_eq!(launch(&mut coordinator, &[0, 1]), [0]);
        end(&mut coordinator, 0);
        assert!(coordinator.round_is_over());
    }

    #[test]
    fn as_many_models_as_the_sets_hold() {
        let devices = [0; Coordinator::MODELS_MAX];
        let mut coordinator =
            Coordinator::new(Coordination::ModelSync(Order::Alternate), Sharing::Overlapped, &devices);
        let expected: Vec<u8> = (0..32).chain([0]).collect();
        assert_eq!(sequence(&mut coordinator, 33), expected);
    }
}
