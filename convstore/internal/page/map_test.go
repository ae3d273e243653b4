package page

import (
	"encoding/binary"
	"errors"
	"strings"
	"testing"
)

// handmade writes pages as bbolt does, whatever sense they make.
type handmade []byte

const handmadeSize = 1024

func (h handmade) page(id int, flags uint16, elements ...[3]any) {
	order, b := binary.NativeEndian, h[id*handmadeSize:][:handmadeSize]
	order.PutUint64(b, uint64(id))
	order.PutUint16(b[8:], flags)
	order.PutUint16(b[10:], uint16(len(elements)))
	end := HeaderSize + elementSize*len(elements)
	for i, e := range elements {
		head := b[HeaderSize+elementSize*i:]
		key := e[0].(string)
		if flags == FlagBranch {
			order.PutUint32(head, uint32(end-HeaderSize-elementSize*i))
			order.PutUint32(head[4:], uint32(len(key)))
			order.PutUint64(head[8:], uint64(e[1].(int)))
			end += copy(b[end:], key)
			continue
		}
		value := e[1].(string)
		order.PutUint32(head[4:], uint32(end-HeaderSize-elementSize*i))
		order.PutUint32(head[8:], uint32(len(key)))
		order.PutUint32(head[12:], uint32(len(value)+e[2].(int)))
		end += copy(b[end:], key+value)
	}
}

// TestLeaves walks through pages made by hand: sound ones, and such as would lead round in a ring,
// out of the file or to one page twice.
func TestLeaves(t *testing.T) {
	type is = [3]any
	for _, test := range []struct {
		name        string
		make        func(handmade)
		first, last string
		want        string // keys met, or the error
	}{
		{"all", func(h handmade) {}, "", "zz", "a b c d e f "},
		{"one leaf", func(h handmade) {}, "d", "d", "c d "},
		{"from between two leaves", func(h handmade) {}, "bb", "c", "a b c d "},
		{"before all", func(h handmade) {}, "0", "1", "a b "},
		{"behind all", func(h handmade) {}, "y", "z", "e f "},
		{"a ring", func(h handmade) { h.page(2, FlagBranch, is{"a", 2}) }, "", "zz", "page 2: neither a leaf nor a branch"},
		{"a ring below", func(h handmade) { h.page(3, FlagBranch, is{"a", 2}, is{"aa", 2}) }, "", "zz", "page 2: keys do not rise"},
		{"a page twice", func(h handmade) { h.page(2, FlagBranch, is{"a", 6}, is{"b", 6}); h.page(6, FlagBranch, is{"a", 3}) }, "", "zz", "a b page 6: keys do not rise"},
		{"falling keys", func(h handmade) { h.page(2, FlagBranch, is{"c", 4}, is{"a", 3}) }, "", "zz", "page 2: keys do not rise"},
		{"an empty branch", func(h handmade) { h.page(2, FlagBranch) }, "", "zz", "page 2: neither a leaf nor a branch"},
		{"a page that is none", func(h handmade) { h.page(4, flagFreelist) }, "", "zz", "a b page 4: neither a leaf nor a branch"},
		{"a page out of the file", func(h handmade) { h.page(2, FlagBranch, is{"a", 3}, is{"b", 99}) }, "", "zz", "a b page 99: out of range"},
		{"a page with another's number", func(h handmade) { h[3*handmadeSize] = 4 }, "", "zz", "page 3: malformed header"},
		{"an entry that reaches out", func(h handmade) { h.page(3, flagLeaf, is{"a", "x", 5000}) }, "", "zz", "page 3: element 0: reaches out of the page"},
		{"an entry behind the last", func(h handmade) { h.page(3, flagLeaf, is{"a", "x", 300}, is{"b", "x", 0}) }, "", "zz", "element 0: reaches out of the page"},
		{"an empty leaf", func(h handmade) { h.page(3, flagLeaf) }, "", "zz", "c d e f "},
	} {
		t.Run(test.name, func(t *testing.T) {
			h := make(handmade, 7*handmadeSize)
			h.page(2, FlagBranch, is{"a", 3}, is{"c", 4}, is{"e", 5})
			h.page(3, flagLeaf, is{"a", "x", 0}, is{"b", "x", 0})
			h.page(4, flagLeaf, is{"c", "x", 0}, is{"d", "x", 0})
			h.page(5, flagLeaf, is{"e", "x", 0}, is{"f", "x", 0})
			test.make(h)
			m := &Map{File: &File{PageSize: handmadeSize, High: 7}, data: h}
			top, err := m.Page(2)
			if err != nil {
				t.Fatal(err)
			}
			var got strings.Builder
			err = Bucket{m, top}.Leaves([]byte(test.first), []byte(test.last), func(leaf Page) error {
				for i := range leaf.Count {
					_, key, value, err := leaf.Entry(i)
					if err != nil {
						return err
					}
					if string(value) != "x" {
						return errors.New("another value")
					}
					got.WriteString(string(key) + " ")
				}
				return nil
			})
			if err != nil {
				got.WriteString(err.Error())
			}
			if got.String() != test.want {
				t.Errorf("leaves(%q, %q) = %q, want %q", test.first, test.last, got.String(), test.want)
			}
		})
	}
}
