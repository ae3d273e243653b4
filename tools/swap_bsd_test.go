//go:build !linux

package tools

import "errors"

func swap(_, _ string) error { return errors.ErrUnsupported }
