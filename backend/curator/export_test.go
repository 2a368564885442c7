package curator

// kill ends a Backend as the death of its process would: nothing more is sent, and the
// session is left to expire.
func (b *Backend) kill() {
	b.mu.Lock()
	b.killed = true
	s := b.session
	b.mu.Unlock()
	if s != nil {
		s.Close(false)
	}
}
