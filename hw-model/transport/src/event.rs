//! Asynchronous events of a queue pair.

/// An asynchronous event of a queue pair (`enum ibv_event_type`).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub enum Event {
    /// The first packet arrived while in RTR.
    CommunicationEstablished = 0,
    /// The send queue is drained.
    SqDrained = 1,
    /// The responder refused an invalid request that no receive WQE can report.
    RequestError = 2,
    /// The responder refused an access that no receive WQE can report.
    AccessError = 3,
    /// A receive WQE could not be read.
    Fatal = 4,
    /// The queue pair entered the error state and takes no more receive WQEs (relevant with a
    /// shared receive queue).
    LastWqeReached = 5,
}

impl Event {
    const ALL: [Event; 6] = [
        Event::CommunicationEstablished,
        Event::SqDrained,
        Event::RequestError,
        Event::AccessError,
        Event::Fatal,
        Event::LastWqeReached,
    ];
}

/// Events that are not yet reported; each kind at most once.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct EventSet(u8);

impl EventSet {
    pub(crate) fn raise(&mut self, event: Event) {
        self.0 |= 1 << event as u8;
    }

    /// Takes one event.
    pub(crate) fn take(&mut self) -> Option<Event> {
        if self.0 == 0 {
            return None;
        }
        let event = Event::ALL
            .into_iter()
            .find(|event| self.0 & 1 << *event as u8 != 0);
        self.0 &= self.0 - 1;
        event
    }

    pub(crate) const fn is_empty(self) -> bool {
        self.0 == 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_event_is_reported_once() {
        let mut set = EventSet::default();
        set.raise(Event::Fatal);
        set.raise(Event::SqDrained);
        set.raise(Event::Fatal);
        assert!(!set.is_empty());
        assert_eq!(set.take(), Some(Event::SqDrained));
        assert_eq!(set.take(), Some(Event::Fatal));
        assert_eq!(set.take(), None);
        for (number, event) in Event::ALL.into_iter().enumerate() {
            assert_eq!(event as usize, number);
        }
    }
}
