package ensemble

import (
	"encoding/binary"
	"slices"
	"testing"
)

// FuzzAnswer checks messages of servers. An accepted message is complete, because the
// library does not check it.
func FuzzAnswer(f *testing.F) {
	n := func(v ...int32) (b []byte) {
		for _, v := range v {
			b = binary.BigEndian.AppendUint32(b, uint32(v))
		}
		return b
	}
	stat := make([]byte, 68)
	for _, b := range [][]byte{nil, n(-1), n(0), n(3), append(n(1), 'a'), append(n(1<<31-1), stat...), append(append(n(1), 'x'), stat...), append(append(append(n(2), n(1)...), 'a'), n(-5)...),
		append(n(opCreate), 0, 0, 0, 0, 0, 0, 0, 0, 1, 'x', 255, 255, 255, 255, 1, 255, 255, 255, 255), append(n(-1), 1, 0, 0, 0, 0)} {
		for _, op := range []int32{opCreate, opExists, opGetData, opGetChildren, opMulti, 99} {
			f.Add(op, b)
		}
	}
	f.Fuzz(func(t *testing.T, op int32, data []byte) {
		p := parser{data}
		if !p.skipReply(op) {
			return
		}
		if len(p.rest) > len(data) {
			t.Errorf("read back: %d of %d bytes are left", len(p.rest), len(data))
		}
		used := data[:len(data)-len(p.rest)]
		if again := (&parser{used}); !again.skipReply(op) || len(again.rest) != 0 {
			t.Errorf("kind %d: %x is enough, and %x of it is not", op, data, used)
		}
		for cut := range min(len(used), 64) {
			if (&parser{used[:cut]}).skipReply(op) {
				t.Errorf("kind %d: %x is accepted, and so is its beginning of %d bytes", op, used, cut)
			}
		}
	})
}

// FuzzReply checks that the library is given no message that would crash it, and that
// genuine messages pass.
func FuzzReply(f *testing.F) {
	stat := make([]byte, 68)
	multi := slices.Concat([]byte{0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 0, 1, '/'}, []byte{0, 0, 0, 5, 0, 0, 0, 0, 0}, stat, []byte{255, 255, 255, 255, 1, 255, 255, 255, 255})
	for op, body := range map[int32][]byte{
		opGetData:     slices.Concat([]byte{0, 0, 0, 1, 'x'}, stat),
		opGetChildren: slices.Concat([]byte{0, 0, 0, 1, 0, 0, 0, 1, 'x'}, stat),
		opMulti:       multi, opSync: {0, 0, 0, 1, '/'}, opSetData: stat,
	} {
		if p := (parser{body}); !p.skipReply(op) || len(p.rest) != 0 {
			f.Errorf("an answer to a request of kind %d is refused, or %d bytes of it are left", op, len(p.rest))
		}
		f.Add(op, body)
	}
	f.Add(int32(opGetChildren), []byte{0x7f, 255, 255, 255})
	f.Add(int32(opGetData), []byte{0x7f, 255, 255, 255, 1})
	f.Add(int32(opSync), []byte{255, 255, 255, 255})
	f.Fuzz(func(t *testing.T, op int32, body []byte) {
		for n := range len(body) { // no part of a complete message is complete
			whole, part := parser{body}, parser{body[:n]}
			if whole.skipReply(op) && len(whole.rest) == 0 && len(body) > 0 && part.skipReply(op) {
				t.Fatalf("%d of the %d bytes of an answer of kind %d pass", n, len(body), op)
			}
		}
	})
}
