//go:build !linux

package convstore

// readAhead would ask for sequential read-ahead on the mapping.
func (h *handle) readAhead() {}
