//go:build !rehearse

package db

const rehearse = false
