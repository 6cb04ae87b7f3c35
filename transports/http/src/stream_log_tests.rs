use super::*;
use crate::link::Clock;

fn link() -> Arc<Link> {
    Arc::new(Link::new(1, None, Clock::start()))
}

fn note(size: usize) -> Body {
    Body::from(vec![b' '; size])
}

fn read(streams: &mut Streams, place: Place) -> Option<u64> {
    match streams.next(place.after.route, place.reader, Waker::noop()) {
        Some(Next::Event(id, _)) => Some(id.number),
        _ => None,
    }
}

#[test]
fn unsolicited_messages_wait_up_to_a_bound() {
    let mut streams = Streams::new(1000, 10_000);
    for _ in 0..100 {
        streams.push(UNSOLICITED, note(100));
    }
    assert!(streams.kept <= 1000 && streams.order.len() == 4);
    let place = streams.listen(None, link()).unwrap();
    assert_eq!(place.after.number, 96);
    assert_eq!((read(&mut streams, place), read(&mut streams, place)), (Some(97), Some(98)));
    assert_eq!(streams.listen(None, link()), Err(NoStream::Taken));
    streams.detach(UNSOLICITED, place.reader);
    // On from there; or from where the client says, if that is kept.
    let place = streams.listen(None, link()).unwrap();
    assert_eq!((place.after.number, read(&mut streams, place)), (98, Some(99)));
    let back = streams.listen(Some(EventId { route: 0, number: 96 }), link()).unwrap();
    assert!(matches!(streams.next(0, place.reader, Waker::noop()), Some(Next::End)), "the earlier reader is done");
    assert_eq!(read(&mut streams, back), Some(97));
    for unknown in [95, 101] {
        assert_eq!(streams.listen(Some(EventId { route: 0, number: unknown }), link()), Err(NoStream::Unknown));
    }
}

#[test]
fn one_message_larger_than_all_bounds_is_kept() {
    let mut streams = Streams::new(1000, 1000);
    let link = link();
    let place = streams.listen(None, link.clone()).unwrap();
    streams.push(UNSOLICITED, note(1_000_000));
    assert_eq!(link.ending(), Ending::No);
    assert_eq!(read(&mut streams, place), Some(1));
    streams.push(UNSOLICITED, note(10));
    assert!(streams.kept < 1000);
}

#[test]
fn a_reader_that_lags_is_cut_off() {
    let mut streams = Streams::new(100_000, 1000);
    let link = link();
    let place = streams.listen(None, link.clone()).unwrap();
    for _ in 0..5 {
        streams.push(UNSOLICITED, note(100));
        assert!(read(&mut streams, place).is_some());
    }
    assert_eq!(link.ending(), Ending::No);
    for _ in 0..5 {
        streams.push(UNSOLICITED, note(100));
    }
    assert_eq!(link.ending(), Ending::Now);
}

#[test]
fn streams_that_nobody_can_come_back_to_are_gone() {
    let mut streams = Streams::new(100_000, 100_000);
    for _ in 0..1000 {
        let route = streams.begin();
        streams.leave(route);
        streams.push(route, note(10));
    }
    assert_eq!((streams.by_route.len(), streams.order.len(), streams.kept), (1, 0, 0));
    // Ended ones are kept for a while, but not all.
    for _ in 0..1000 {
        let route = streams.begin();
        streams.push(route, note(10));
        let place = streams.attach(route, link()).unwrap();
        assert_eq!(read(&mut streams, place), Some(1));
        streams.give_up(&[route]);
        streams.detach(route, place.reader);
    }
    assert_eq!((streams.by_route.len(), streams.order.len()), (1 + ENDED_MAX, ENDED_MAX));
}
