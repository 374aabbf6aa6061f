package shim

func (s *shim) serve() { _, _ = s.inner.process.Wait() }
