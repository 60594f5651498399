//! The words that a scenario may use where it must choose one of a few.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Deserializer, Serialize, Serializer, de};

/// Defines an enum whose values have one name each, the same in files, on the command line and in results.
macro_rules! named_values {
    ($(#[$doc:meta])* $name:ident { $($(#[$value_doc:meta])* $value:ident = $text:literal,)+ }) => {
        $(#[$doc])*
        #[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
        pub enum $name { $($(#[$value_doc])* $value,)+ }

        impl $name {
            /// Every value, in the order of the documentation.
            pub const ALL: &[Self] = &[$(Self::$value,)+];
            /// The names of [`Self::ALL`], in the same order.
            pub const NAMES: &[&str] = &[$($text,)+];

            /// The name used in files, on the command line and in results.
            #[must_use]
            pub const fn as_str(self) -> &'static str {
                match self { $(Self::$value => $text,)+ }
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.pad(self.as_str())
            }
        }

        impl FromStr for $name {
            type Err = UnknownName;
            fn from_str(text: &str) -> Result<Self, UnknownName> {
                match text {
                    $($text => Ok(Self::$value),)+
                    _ => Err(UnknownName { name: text.to_owned(), allowed: Self::NAMES }),
                }
            }
        }

        impl Serialize for $name {
            fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                serializer.serialize_str(self.as_str())
            }
        }

        impl<'de> Deserialize<'de> for $name {
            fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                struct NameVisitor;
                impl de::Visitor<'_> for NameVisitor {
                    type Value = $name;
                    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                        write!(f, "one of {}", quoted_list($name::NAMES))
                    }
                    fn visit_str<E: de::Error>(self, text: &str) -> Result<$name, E> {
                        text.parse().map_err(E::custom)
                    }
                }
                deserializer.deserialize_str(NameVisitor)
            }
        }
    };
}

/// A name that is none of those allowed.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[error("unknown value `{name}`, expected one of {}", quoted_list(allowed))]
pub struct UnknownName {
    /// The name as given.
    pub name: String,
    /// The names that would have been right.
    pub allowed: &'static [&'static str],
}

named_values! {
    /// When a subserver may launch, relative to the others (design: the four modes of the paper's figure 4).
    Mode {
        /// All models step together; everyone waits for the slowest each step.
        StepSync = "step-sync",
        /// One model at a time; the requests of the others stall.
        ModelSync = "model-sync",
        /// Asynchronous; an idle subserver launches whatever waits.
        Eager = "eager",
        /// Asynchronous; an idle subserver launches only when its threshold is met.
        Delayed = "delayed",
    }
}

named_values! {
    /// How models on the same device share it.
    Sharing {
        /// Forwards run side by side and slow each other by the co-run rates.
        Overlapped = "overlapped",
        /// One forward at a time, in a given order.
        Exclusive = "exclusive",
    }
}

named_values! {
    /// Which model goes first when several on an exclusive device (or under model-sync) could run.
    Order {
        /// The model with the highest index first.
        LargeFirst = "large-first",
        /// The model with the lowest index first: run it until nobody waits there.
        SmallFirst = "small-first",
        /// The models take turns.
        Alternate = "alternate",
    }
}

named_values! {
    /// Which kind of row goes first when one forward may not mix them.
    First {
        /// Rows that extend a kept prefix.
        Extend = "extend",
        /// Rows that decode one token.
        Decode = "decode",
    }
}

named_values! {
    /// Whether message handling overlaps the forward.
    Loops {
        /// Three loops run side by side: messages are handled while a forward runs.
        Decoupled = "decoupled",
        /// One loop does everything in turn: message handling adds to the step.
        Fused = "fused",
    }
}

named_values! {
    /// What a request finds when it comes back to a model.
    HandoffKind {
        /// Its KV, kept while it was away.
        Resume = "resume",
        /// Nothing to go on: it is a new request and pays prefix matching again.
        Fresh = "fresh",
    }
}

named_values! {
    /// What happens when the KV budget is exhausted.
    KvFull {
        /// The request waits at admission.
        Wait = "wait",
        /// A pending request loses its KV and is recomputed when it comes back.
        Preempt = "preempt",
    }
}

named_values! {
    /// Which rows a gate with a threshold holds back.
    Hold {
        /// Decode rows only.
        Decode = "decode",
        /// Extend rows only.
        Extend = "extend",
        /// Decode and extend rows.
        Both = "both",
        /// Decode and extend rows and new prompts.
        All = "all",
    }
}

named_values! {
    /// Where the first requests of a closed loop stand when a replication starts.
    StartKind {
        /// All at the beginning of the cycle.
        InPhase = "in-phase",
        /// Evenly spread over the cycle.
        Spread = "spread",
        /// Each at a random phase.
        Random = "random",
    }
}

/// "`a`, `b`, `c`".
pub(super) fn quoted_list<S: AsRef<str>>(names: &[S]) -> String {
    let quoted: Vec<String> = names.iter().map(|name| format!("`{}`", name.as_ref())).collect();
    quoted.join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_round_trip() {
        for (order, name) in Order::ALL.iter().zip(Order::NAMES) {
            assert_eq!(name.parse::<Order>().as_ref(), Ok(order));
            assert_eq!(order.to_string(), *name);
        }
        let error = "eagre".parse::<Mode>().expect_err("no such mode").to_string();
        assert_eq!(error, "unknown value `eagre`, expected one of `step-sync`, `model-sync`, `eager`, `delayed`");
    }
}
