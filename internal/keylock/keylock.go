// Package keylock is one lock for each key, such as a session's id.
//
// The one idea: waiting for a lock obeys a context, and a key that nobody holds
// or waits for costs nothing. The package knows strings; what they name is not
// its business.
package keylock

import (
	"context"
	"fmt"
	"sync"
)

// Locks holds the locks. The zero value is ready.
type Locks struct {
	mu sync.Mutex // guards the fields below
	m  map[string]*lock
}

type lock struct {
	held  chan struct{} // one place: full while the lock is held
	users int           // holders and waiters
}

// Lock waits until it holds the key's lock, or ctx ends. unlock may be called
// more than once; only the first counts. Locks are not reentrant, and are given
// in no order.
func (l *Locks) Lock(ctx context.Context, key string) (unlock func(), err error) {
	k := l.use(key)
	select {
	case k.held <- struct{}{}:
		return l.unlocker(key, k), nil
	default:
	}
	select {
	case k.held <- struct{}{}:
		return l.unlocker(key, k), nil
	case <-ctx.Done():
		l.drop(key, k)
		return nil, fmt.Errorf("wait for %s: %w", key, context.Cause(ctx))
	}
}

// TryLock is Lock that does not wait: ok is false when somebody holds the lock.
func (l *Locks) TryLock(key string) (unlock func(), ok bool) {
	k := l.use(key)
	select {
	case k.held <- struct{}{}:
		return l.unlocker(key, k), true
	default:
		l.drop(key, k)
		return nil, false
	}
}

func (l *Locks) unlocker(key string, k *lock) func() {
	return sync.OnceFunc(func() {
		<-k.held
		l.drop(key, k)
	})
}

func (l *Locks) use(key string) *lock {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.m == nil {
		l.m = map[string]*lock{}
	}
	k := l.m[key]
	if k == nil {
		k = &lock{held: make(chan struct{}, 1)}
		l.m[key] = k
	}
	k.users++
	return k
}

func (l *Locks) drop(key string, k *lock) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if k.users--; k.users == 0 {
		delete(l.m, key)
	}
}
