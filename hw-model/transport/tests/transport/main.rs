//! Requester and responder of each service. One program: the crate is compiled once for all.

#[path = "../captures/mod.rs"]
mod captures;
#[path = "../pair/mod.rs"]
mod pair;

mod atomics;
mod attributes;
mod golden;
mod golden_unreliable;
mod goodput;
mod hostile;
mod recovery;
mod requester;
mod responder;
mod seeds;
mod states;
mod trains;
mod unreliable;
mod unreliable_seeds;
mod vanishing;
mod xrc;
