package mapping

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/offerlog/offerlog/pkg/offer"
)

// acme is the feed of docs and README, with all fields.
var acme = Spec{
	Format: Format{Rows: ".offers[]"},
	Order:  OrderVersion,
	Fields: map[string]any{
		"source_record":  ".sku",
		"source_version": ".rev",
		"item":           map[string]any{"mpn": ".mpn", "revision": ".rev_code", "packaging": ".pack", "condition": `.cond // "new"`},
		"quantity":       ".qty",
		"quantity_basis": map[string]any{"unit": ".unit", "per": ".per"},
		"price":          ".price",
		"currency":       ".cur",
		"price_breaks":   "[.breaks[]? | {min_qty: .qty, price: .price}]",
		"observed_at":    ".ts",
	},
}

func acmePage(rows int) []byte {
	var b bytes.Buffer
	b.WriteString(`{"offers":[`)
	for i := range rows {
		if i > 0 {
			b.WriteByte(',')
		}
		fmt.Fprintf(&b, `{"sku":"AX-%d","rev":%d,"mpn":"RC0603FR-%d","rev_code":"C","pack":"reel","qty":%d,"unit":"C62","per":1,"price":0.%04d,"cur":"EUR","breaks":[{"qty":10,"price":0.0150},{"qty":100,"price":0.0099}],"ts":"2025-03-01T10:00:00.250Z"}`,
			i, i%9+1, i, i*7, i%9000+100)
	}
	b.WriteString("]}")
	return b.Bytes()
}

// page is rows of one supplier as a payload of a kind, with its Spec.
func page(kind string, rows int) (Spec, []byte) {
	if kind == KindJSON {
		return acme, acmePage(rows)
	}
	spec := acme
	spec.Format = Format{Kind: kind}
	var b bytes.Buffer
	if kind == KindNDJSON {
		text := bytes.TrimSuffix(bytes.TrimPrefix(acmePage(rows), []byte(`{"offers":[`)), []byte("]}"))
		return spec, bytes.ReplaceAll(text, []byte("},{\"sku"), []byte("}\n{\"sku"))
	}
	spec.Fields = maps.Clone(spec.Fields)
	spec.Fields["price_breaks"] = "[{min_qty: .qty1, price: .price1}, {min_qty: .qty2, price: .price2}]"
	b.WriteString("sku,rev,mpn,rev_code,pack,cond,qty,unit,per,price,cur,qty1,price1,qty2,price2,ts\n")
	for i := range rows {
		fmt.Fprintf(&b, "AX-%d,%d,RC0603FR-%d,C,reel,new,%d,C62,1,0.%04d,EUR,10,0.0150,100,0.0099,2025-03-01T10:00:00.250Z\n", i, i%9+1, i, i*7, i%9000+100)
	}
	return spec, b.Bytes()
}

// BenchmarkMap is reading with mapping on one core.
func BenchmarkMap(b *testing.B) {
	for _, kind := range []string{KindJSON, KindCSV, KindNDJSON} {
		for _, rows := range []int{1, 1000} {
			b.Run(fmt.Sprintf("%s/%d rows", kind, rows), func(b *testing.B) {
				spec, payload := page(kind, rows)
				p := mustCompile(b, spec)
				r := Request{Payload: payload, HasData: true}
				b.SetBytes(int64(len(payload)))
				b.ReportAllocs()
				for b.Loop() {
					if res, _ := p.Map(b.Context(), &r); len(res.Rows) != rows {
						b.Fatal(res.Fault, res.Rejected)
					}
				}
				b.ReportMetric(float64(rows*b.N)/b.Elapsed().Seconds(), "rows/s")
			})
		}
	}
}

func BenchmarkCanonical(b *testing.B) {
	page := acmePage(100)
	value, fault := readJSON(page, defaultMaxDepth)
	if fault != nil {
		b.Fatal(fault)
	}
	b.SetBytes(int64(len(page)))
	var form []byte
	for b.Loop() {
		form = appendCanonical(form[:0], value)
	}
}

// One process and both ends of the pipe, so on one core it is all of the work.
func BenchmarkChild(b *testing.B) {
	for _, rows := range []int{1, 100} {
		b.Run(fmt.Sprintf("%d rows", rows), func(b *testing.B) {
			c := NewChild(Config{Processes: 1})
			defer c.Close()
			specs := map[offer.Digest]Spec{acme.Digest(): acme}
			reqs := make([]Request, 2000/rows)
			for i := range reqs {
				reqs[i] = Request{Spec: acme.Digest(), Payload: acmePage(rows), HasData: true}
			}
			for b.Loop() {
				if _, err := c.Map(b.Context(), specs, reqs); err != nil {
					b.Fatal(err)
				}
			}
			b.ReportMetric(float64(2000*b.N)/b.Elapsed().Seconds(), "rows/s")
		})
	}
}

// peak is the most memory that this process, or the children it has waited for, have had.
func peak(b *testing.B, who int) float64 {
	var usage syscall.Rusage
	if err := syscall.Getrusage(who, &usage); err != nil {
		b.Fatal(err)
	}
	return float64(usage.Maxrss) / 1024
}

// A big delivery from its file to a spool, and once through the spool: rows/s and the peak memory of both processes.
func BenchmarkSpool(b *testing.B) {
	for _, rows := range []int{10_000, 1_000_000} {
		b.Run(fmt.Sprintf("%d rows", rows), func(b *testing.B) {
			path := filepath.Join(b.TempDir(), "offers.csv")
			f, err := os.Create(path)
			if err != nil {
				b.Fatal(err)
			}
			w := bufio.NewWriter(f)
			fmt.Fprintln(w, "sku,mpn,manufacturer,qty,price,cur,ts,text")
			for i := range rows {
				fmt.Fprintf(w, "AX-%d,RC0603FR-%d,Acme Components,%d,0.%04d,EUR,2025-03-01T10:00:00.250Z,a resistor for many purposes\n", i, i, i*7, i%9000+100)
			}
			if err := errors.Join(w.Flush(), f.Close()); err != nil {
				b.Fatal(err)
			}
			info, err := os.Stat(path)
			if err != nil {
				b.Fatal(err)
			}
			spec := Spec{Order: OrderObservedAt, Format: Format{Kind: KindCSV}, Fingerprint: FingerprintRows, Limits: Limits{MaxBytes: 1 << 30}, Fields: map[string]any{
				"source_record": ".sku", "item": map[string]any{"mpn": ".mpn", "manufacturer": ".manufacturer"}, "quantity": ".qty", "price": ".price", "currency": ".cur", "observed_at": ".ts",
			}}
			c := NewChild(Config{Processes: 1})
			defer c.Close()
			for b.Loop() {
				res, spool, err := c.Spool(b.Context(), spec, Request{Path: path, Length: info.Size(), HasData: true}, b.TempDir())
				if err != nil || res.Fault != nil {
					b.Fatal(res.Fault, err)
				}
				n := 0
				for chunk, err := range spool.Chunks() {
					if err != nil {
						b.Fatal(err)
					}
					n += len(chunk)
				}
				if err := spool.Close(); err != nil || n != rows {
					b.Fatal(n, err)
				}
			}
			b.ReportMetric(float64(rows*b.N)/b.Elapsed().Seconds(), "rows/s")
			b.ReportMetric(peak(b, syscall.RUSAGE_SELF), "MB-caller")
			b.ReportMetric(peak(b, syscall.RUSAGE_CHILDREN), "MB-mapper")
		})
	}
}
