//go:build darwin || dragonfly || freebsd || netbsd || openbsd

package proc

// Enforceable reports what this system can enforce: nothing.
func Enforceable() Report {
	var r Report
	r.Missing = r.missing()
	return r
}

// inside calls start. It confines nothing.
func (c confinement) inside(start func() bool) (ok bool, killAll func(), err error) {
	if c.Require {
		return false, nil, &ConfineError{c.Missing(Enforceable())}
	}
	return start(), nil, nil
}
