package keylock

import (
	"context"
	"errors"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

func TestOneHolderAtATime(t *testing.T) {
	var l Locks
	var wg sync.WaitGroup
	n := 0
	for range 50 {
		wg.Go(func() {
			for range 100 {
				unlock, err := l.Lock(t.Context(), "a")
				if err != nil {
					t.Error(err)
					return
				}
				n++
				unlock()
				unlock() // the second call must not free somebody else's lock
			}
		})
	}
	wg.Wait()
	if n != 5000 {
		t.Errorf("n = %d, want 5000", n)
	}
	if len(l.m) != 0 {
		t.Errorf("%d keys are kept, want none", len(l.m))
	}
}

func TestKeysAreIndependent(t *testing.T) {
	var l Locks
	a, err := l.Lock(t.Context(), "a")
	if err != nil {
		t.Fatal(err)
	}
	defer a()
	b, ok := l.TryLock("b")
	if !ok {
		t.Fatal("b is held though only a is")
	}
	b()
	if _, ok := l.TryLock("a"); ok {
		t.Error("a was got twice")
	}
}

func TestWaitingObeysTheContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var l Locks
		unlock, err := l.Lock(t.Context(), "a")
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if _, err := l.Lock(ctx, "a"); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("got %v, want the deadline", err)
		}
		unlock()
		if again, err := l.Lock(ctx, "a"); err != nil {
			t.Errorf("a free lock under an ended context: %v", err)
		} else {
			again()
		}
		if len(l.m) != 0 {
			t.Errorf("%d keys are kept, want none", len(l.m))
		}
	})
}
